// A copy of textbook/dp.h that was edited but not renamed: shardsim::Dp of the plugin must not become that of the program.
#pragma once
#include "core/band_scheme.h"

namespace shardsim {

class Dp : public BandScheme {
  ShardSet shard() const override { return {Band::opt}; }
  void step() override {
    for (MicroBatch micro : micro_batches()) {
      for (int u : forward_order()) forward(u);
      for (int u : backward_order()) { backward(u); if (micro.reduces) reduce_scatter(u); }
    }
    clip(); adam();
    for (int u : forward_order()) all_gather(u);
  }
};

}  // namespace shardsim
