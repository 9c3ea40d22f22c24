// Plugins that throw, and one that forgets to reduce: each has to end with a clear line, and leave nothing behind.
#pragma once
#include <stdexcept>

#include "core/error.h"
#include "textbook/dp.h"

namespace shardsim {

struct ThrowsWhenMade : Dp {
  ThrowsWhenMade() { throw std::runtime_error("no licence"); }
};

struct ThrowsInShard : Dp {
  ShardSet shard() const override { throw std::runtime_error("no idea"); }
};

struct ThrowsInStep : Dp {
  void step() override { throw std::runtime_error("out of ideas"); }
};

struct ThrowsNumber : Dp {
  void step() override { throw 42; }
};

/// Throws core's own type of error, from a library that has a type_info of its own for it.
struct BreaksRule : Dp {
  void step() override { throw IllegalStep("I refuse"); }
};

struct NeverReduces : Dp {
  void step() override {
    for (MicroBatch micro : micro_batches()) {
      for (int u : forward_order()) forward(u);
      for (int u : backward_order()) backward(u);
    }
    adam();
  }
};

}  // namespace shardsim
