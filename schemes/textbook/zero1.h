// zero1: the all-reduce is split open: reduce-scatter, update the owned slice, all-gather the new parameters. Traffic still 2P;
// the optimizer's state falls to 1/N.
#pragma once
#include "core/band_scheme.h"

namespace shardsim {

class Zero1 : public BandScheme {
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
