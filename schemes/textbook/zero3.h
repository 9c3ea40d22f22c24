// zero3: each pass gathers a unit, uses it and releases it. Two gathers and one reduce-scatter: traffic 3P, and no rank ever
// holds more of the parameters than its slice and the units in use.
#pragma once
#include "textbook/zero2.h"

namespace shardsim {

class Zero3 : public Zero2 {
  ShardSet shard() const override { return {Band::opt, Band::grad, Band::param}; }
  void step() override {
    for (MicroBatch micro : micro_batches()) {
      for (int u : forward_order())  { all_gather(u); forward(u);  release(u); }
      for (int u : backward_order()) { all_gather(u); backward(u); release(u); reduce_scatter(u); }
    }
    clip(); adam();
  }
};

}  // namespace shardsim
