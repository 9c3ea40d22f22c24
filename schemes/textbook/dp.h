// dp: data parallel. Every rank keeps everything; gradients meet in one all-reduce. Traffic 2P: an all-reduce is a
// reduce-scatter and an all-gather.
#pragma once
#include "core/band_scheme.h"

namespace shardsim {

class Dp : public BandScheme {
  ShardSet shard() const override { return {}; }
  void step() override {
    for (MicroBatch micro : micro_batches()) {
      for (int u : forward_order()) forward(u);
      for (int u : backward_order()) { backward(u); if (micro.reduces) all_reduce(u); }
    }
    clip(); adam();
  }
};

}  // namespace shardsim
