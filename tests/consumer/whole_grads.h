// whole_grads: zero3 that keeps its whole gradient, so that it can wait with the reduction for the last micro-batch. Traffic
// (2A + 1)P for A micro-batches, where zero3 sends 3AP; the price is 2 bytes of gradient per parameter instead of 2/N.
#pragma once
#include "core/band_scheme.h"

class WholeGrads : public shardsim::BandScheme {
  using Band = shardsim::Band;
  shardsim::ShardSet shard() const override { return {Band::opt, Band::param}; }
  void step() override {
    for (shardsim::MicroBatch micro : micro_batches()) {
      for (int u : forward_order())  { all_gather(u); forward(u);  release(u); }
      for (int u : backward_order()) { all_gather(u); backward(u); release(u); if (micro.reduces) reduce_scatter(u); }
    }
    clip(); adam();
  }
};
