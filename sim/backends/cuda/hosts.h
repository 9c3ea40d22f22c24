// Hosts: what the host threads of a run's ranks share: the first error, and meetings where they wait for each other.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>

namespace shardsim::cuda {

/// A place where a group's hosts meet again and again.
struct Meeting {
  int present = 0;
  std::uint64_t held = 0;
};

/// On one card a collective can be enqueued only when all members have issued it, so hosts wait for each other there, and all ranks
/// have to issue the collectives of all lanes in one order. Where none can go on, that is an IllegalStep and no hang.
class Hosts {
 public:
  explicit Hosts(int world) : world_(world) {}

  /// Blocks until `size` hosts are here: `arrive` is each one's own part, `last` that of the last to come; one host at a time.
  /// Throws Stopped when the run has failed.
  void meet(Meeting&, int size, const std::function<void()>& arrive, const std::function<void()>& last);
  /// This host meets nobody any more.
  void finish();
  /// Keeps the first error, and wakes all. Without an error it only stops the run. True: this is the first.
  bool fail(std::exception_ptr) noexcept;
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  /// To be read when all hosts have ended.
  std::exception_ptr error() const { return error_; }

 private:
  void fail_if_stuck();
  int world_, waiting_ = 0, finished_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> failed_ = false;
  std::exception_ptr error_;
};

}  // namespace shardsim::cuda
