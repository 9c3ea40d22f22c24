// hsdp: hybrid sharding. Each group of `mesh.shards` neighbours shares one copy as in ZeRO-3, and the copies agree by an all-reduce
// of the slices. Traffic per rank, for S shards and R replicas: (3(S-1)/S + 2(R-1)/(RS)) P, most of it among neighbours.
#pragma once
#include "textbook/zero3.h"

namespace shardsim {

class Hsdp : public Zero3 {
  bool replicates() const override { return true; }
  void step() override {
    for (MicroBatch micro : micro_batches()) {
      for (int u : forward_order())  { all_gather(u); forward(u);  release(u); }
      for (int u : backward_order()) { all_gather(u); backward(u); release(u); reduce_scatter(u); if (micro.last) all_reduce(u); }
    }
    clip(); adam();
  }
};

}  // namespace shardsim
