// One tiny misbehaving scheme per illegal act. Each must be refused with a message that names scheme, verb, unit and remedy.
#pragma once
#include <algorithm>
#include <atomic>
#include <csignal>
#include <stdexcept>

#include "textbook/dp.h"
#include "textbook/zero3.h"

namespace shardsim::broken {

/// The mistake to avoid: gathered once, kept through both passes, not declared.
class GathersOnce : public Zero3 {
  void step() override {
    for (MicroBatch micro : micro_batches()) {
      for (int u : forward_order()) { all_gather(u); forward(u); }
      for (int u : backward_order()) { backward(u); release(u); reduce_scatter(u); }
    }
    clip(); adam();
  }
};

/// The same, dressed up: it asks for the second gather but never released the first.
class GathersAgainWithoutRelease : public Zero3 {
  void step() override {
    for (MicroBatch micro : micro_batches()) {
      for (int u : forward_order()) { all_gather(u); forward(u); }
      for (int u : backward_order()) { all_gather(u); backward(u); release(u); reduce_scatter(u); }
    }
    clip(); adam();
  }
};

class ForwardsUngathered : public Zero3 {
  void step() override {
    for (MicroBatch micro : micro_batches())
      for (int u : forward_order()) forward(u);
  }
};

class BackwardsUngathered : public Zero3 {
  void step() override {
    for (MicroBatch micro : micro_batches()) {
      for (int u : forward_order()) { all_gather(u); forward(u); release(u); }
      for (int u : backward_order()) backward(u);
    }
  }
};

class UpdatesUnreduced : public Zero1 {
  void step() override {
    for (MicroBatch micro : micro_batches()) {
      for (int u : forward_order()) forward(u);
      for (int u : backward_order()) backward(u);
    }
    adam();
  }
};

class ReleasesNothing : public Zero3 {
  void step() override {
    for (MicroBatch micro : micro_batches())
      for (int u : forward_order()) { all_gather(u); forward(u); release(u); release(u); }
  }
};

class StaysGathered : public Zero3 {
  bool keeps_gathered() const override { return true; }
  void step() override {
    for (MicroBatch micro : micro_batches()) {
      for (int u : forward_order()) { all_gather(u); forward(u); }
      for (int u : backward_order()) { backward(u); reduce_scatter(u); }
    }
    clip(); adam();
  }
};

class NeverPublishes : public Zero1 {
  void step() override {
    for (MicroBatch micro : micro_batches()) {
      for (int u : forward_order()) forward(u);
      for (int u : backward_order()) { backward(u); if (micro.reduces) reduce_scatter(u); }
    }
    clip(); adam();
  }
};

class AllReducesShards : public Zero1 {
  void step() override {
    for (MicroBatch micro : micro_batches()) {
      for (int u : forward_order()) forward(u);
      for (int u : backward_order()) { backward(u); all_reduce(u); }
    }
    adam();
  }
};

class ScattersReplicas : public Dp {
  void step() override {
    for (MicroBatch micro : micro_batches()) {
      for (int u : forward_order()) forward(u);
      for (int u : backward_order()) { backward(u); reduce_scatter(u); }
    }
    adam();
  }
};

class GathersReplicas : public Dp {
  void step() override {
    for (MicroBatch micro : micro_batches())
      for (int u : forward_order()) { all_gather(u); forward(u); }
  }
};

class ReducesTwice : public Dp {
  void step() override {
    for (MicroBatch micro : micro_batches()) {
      for (int u : forward_order()) forward(u);
      for (int u : backward_order()) { backward(u); all_reduce(u); all_reduce(u); }
    }
    adam();
  }
};

class HoardsGradients : public Zero2 {
  void step() override {
    for (MicroBatch micro : micro_batches()) {
      for (int u : forward_order()) forward(u);
      for (int u : backward_order()) backward(u);
      for (int u : backward_order()) reduce_scatter(u);
    }
    adam();
    for (int u : forward_order()) all_gather(u);
  }
};

class DropsAGradient : public Zero2 {
  void step() override {
    for (MicroBatch micro : micro_batches()) {
      for (int u : forward_order()) forward(u);
      for (int u : backward_order()) { backward(u); if (u > 0) reduce_scatter(u); }
    }
  }
};

class DoesNothing : public Dp {
  void step() override {}
};

class ForgetsToUpdate : public Dp {
  void step() override {
    for (MicroBatch micro : micro_batches()) {
      for (int u : forward_order()) forward(u);
      for (int u : backward_order()) { backward(u); all_reduce(u); }
    }
  }
};

class RunsBackwardFirst : public Dp {
  void step() override {
    for (MicroBatch micro : micro_batches())
      for (int u : backward_order()) backward(u);
  }
};

class RunsForwardInReverse : public Dp {
  void step() override {
    for (MicroBatch micro : micro_batches())
      for (int u : backward_order()) forward(u);
  }
};

class RunsWithoutData : public Dp {
  void step() override {
    for (int u : forward_order()) forward(u);
  }
};

class NamesAUnitThatIsNone : public Dp {
  void step() override {
    for (MicroBatch micro : micro_batches()) {
      for (int u : forward_order()) forward(u);
      for (int u : backward_order()) backward(u);
    }
    all_reduce(7);
  }
};

/// Each rank walks the units in its own order.
class OrdersByRank : public Dp {
  static inline std::atomic<int> made = 0;
  int mine_ = made++ % 4;  // one of four ranks

 protected:
  void step() override {
    for (MicroBatch micro : micro_batches()) {
      for (int u : forward_order()) forward(u);
      for (int u : backward_order()) backward(u);
    }
    std::vector<int> units = backward_order();
    if (mine_ == 1) std::reverse(units.begin(), units.end());
    for (int u : units) all_reduce(u);
    clip(); adam();
  }
};

/// One rank issues a collective more than the others.
class RepeatsOnOneRank : public Zero1 {
  static inline std::atomic<int> made = 0;
  int mine_ = made++ % 4;  // one of four ranks

 protected:
  void step() override {
    for (MicroBatch micro : micro_batches()) {
      for (int u : forward_order()) forward(u);
      for (int u : backward_order()) { backward(u); if (micro.reduces) reduce_scatter(u); }
    }
    clip(); adam();
    for (int u : forward_order()) {
      all_gather(u);
      if (mine_ == 2 && u == 0) all_gather(u);
    }
  }
};

/// Reduces what it goes on adding to.
class ReducesEveryMicroBatch : public Dp {
  void step() override {
    for (MicroBatch micro : micro_batches()) {
      for (int u : forward_order()) forward(u);
      for (int u : backward_order()) { backward(u); all_reduce(u); }
    }
    clip(); adam();
  }
};

/// Reduces on the last micro-batch only, though it keeps no foreign gradients.
class ReducesTheLastOnly : public Zero2 {
  void step() override {
    for (MicroBatch micro : micro_batches()) {
      for (int u : forward_order()) forward(u);
      for (int u : backward_order()) { backward(u); if (micro.last) reduce_scatter(u); }
    }
    clip(); adam();
    for (int u : forward_order()) all_gather(u);
  }
};

class Throws : public Dp {
  void step() override { throw std::runtime_error("the plugin's own words"); }
};

class Crashes : public Dp {
  void step() override { std::raise(SIGSEGV); }
};

/// Never comes back from its second pass.
class Hangs : public Dp {
  void step() override {
    for (MicroBatch micro : micro_batches()) {
      for (int u : forward_order()) forward(u);
      for (std::atomic<bool> over = false; !over;) {}
    }
  }
};

}  // namespace shardsim::broken
