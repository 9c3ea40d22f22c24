// Hosts: what the host threads of a run's ranks share: the first error, and meetings where they wait for each other.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>

namespace shardsim::cuda {

class Rendezvous;

/// A place where a group's hosts meet again and again.
struct Meeting {
  int present = 0;
  std::uint64_t held = 0;
};

/// On one card a collective can be enqueued only when all members have issued it, so hosts wait for each other there, and all ranks
/// have to issue the collectives of all lanes in one order. Where none can go on, that is an IllegalStep and no hang.
class Hosts {
 public:
  explicit Hosts(int ranks) : ranks_(ranks) {}

  /// body(rank) on a thread for each of the ranks from `first` on, and then ended(rank), whatever came of it. Throws the first
  /// error. `nodes` (null: there are no others) is told of it, and tells of the other nodes' errors: these stop the ranks here,
  /// too.
  void run(int first, Rendezvous* nodes, const std::function<void(int)>& body, const std::function<void(int)>& ended);

  /// Blocks until `size` hosts are here: `arrive` is each one's own part, `last` that of the last to come; one host at a time.
  /// Throws Stopped when the run has failed.
  void meet(Meeting&, int size, const std::function<void()>& arrive, const std::function<void()>& last);
  /// This host meets nobody any more.
  void finish();
  /// Keeps the first error, and wakes all. Without an error it only stops the run. True: this is the first.
  bool fail(std::exception_ptr) noexcept;
  bool failed() const { return failed_.load(std::memory_order_relaxed); }

 private:
  void fail_if_stuck();
  int ranks_, waiting_ = 0, finished_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> failed_ = false;
  std::exception_ptr error_;
};

}  // namespace shardsim::cuda
