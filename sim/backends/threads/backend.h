// ThreadsBackend: the ranks of a run on real CPU threads and the wall clock. A host thread per rank, a worker per stream in use.
#pragma once
#include <memory>
#include <vector>

#include "backends/threads/fabric.h"
#include "core/backend.h"

namespace shardsim {

class ThreadsBackend : public Backend {
 public:
  explicit ThreadsBackend(BackendSettings settings) : settings_(settings) { alarm_.pulse = settings.pulse; }
  /// Ranks that wait for each other for ever, which the fabric's own checks cannot see across groups, are an IllegalStep too.
  void run(int world, const Body&) override;
  const Device& device(int rank) const override { return *devices_.at(rank); }

 private:
  void live(int rank, const Body&);
  void watch();
  bool stuck();

  BackendSettings settings_;
  threads::Alarm alarm_;
  IssueOrder order_;
  threads::Communicators communicators_;
  std::vector<std::unique_ptr<threads::ThreadsDevice>> devices_;
  threads::Counter finished_;                 // ranks whose host has ended
  threads::Counter nothing_;                  // never advances: what a finished host waits for
  std::vector<threads::Waiter::Wait> waits_;  // seen by the last look of stuck()
};

}  // namespace shardsim
