// Backend: a way to run one body on N ranks, each with its own device and fabric.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>

#include "core/allocator_event.h"
#include "core/device.h"
#include "core/fabric.h"
#include "core/rank_set.h"

namespace shardsim {

class Backend {
 public:
  virtual ~Backend() = default;
  /// Called once per rank, on that rank's host thread (or actor).
  using Body = std::function<void(Device&, Fabric&)>;

  /// Runs the body on all ranks, to the end of all their streams. When one throws, the others are stopped and the first error is
  /// rethrown here. Once per object.
  virtual void run(int world, const Body&) = 0;
  /// A rank's device, with its books; after run.
  virtual const Device& device(int rank) const = 0;
  /// What a rank's emulated allocator did, if the rank is recorded; after run.
  virtual std::vector<AllocatorEvent> allocator_history(int /*rank*/) const { return {}; }
};

/// What all backends are told.
struct BackendSettings {
  bool numerics = true;  ///< false: no storage behind tensors, no arithmetic
  bool checks_hazards = true;
  std::atomic<std::uint64_t>* pulse = nullptr;  ///< grows with what the streams finish, for whoever watches from outside
  RankSet recorded_ranks = 64;                  ///< they keep their spans and ledger entries; the others keep totals and peaks
};

}  // namespace shardsim
