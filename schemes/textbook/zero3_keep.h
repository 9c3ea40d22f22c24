// zero3_keep: the negative control. It gathers once and keeps the result through both passes: the right loss, but traffic 2P and
// every gathered unit alive at the turn. ZeRO-3 pays a second gather (the third P) to hold only the units in use.
#pragma once
#include "textbook/zero3.h"

namespace shardsim {

class Zero3Keep : public Zero3 {
  bool keeps_gathered() const override { return true; }
  void step() override {
    for (MicroBatch micro : micro_batches()) {
      for (int u : forward_order())  { all_gather(u); forward(u); }
      for (int u : backward_order()) { backward(u); release(u); reduce_scatter(u); }
    }
    clip(); adam();
  }
};

}  // namespace shardsim
