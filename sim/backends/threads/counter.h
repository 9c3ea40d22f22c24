// Counter: a number that only grows, and the only thing on which the threads of this backend sleep.
//
// ThreadSanitizer has to find a missing event edge, so nothing but a real wait may order two streams. Mutexes, condition variables
// and std::atomic::wait would. Here a thread polls with relaxed loads, sleeps in a bare futex call, and acquires only on request.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <stdexcept>

namespace shardsim::threads {

/// What a rank's host is told when the run has already failed elsewhere; never the error that `run` reports.
struct Stopped : std::runtime_error {
  Stopped() : std::runtime_error("stopped, because another stream or rank failed") {}
};

/// Raised by the first error of a run; everyone who sleeps finds out within a few milliseconds.
class Alarm {
 public:
  bool raised() const { return raised_.load(std::memory_order_relaxed); }
  /// Keeps the first error. Without an error it only stops the run.
  void raise(std::exception_ptr) noexcept;
  /// To be read when all threads have been joined.
  std::exception_ptr error() const { return error_; }
  std::atomic<std::uint64_t>* pulse = nullptr;  ///< grows with every finished task; orders nothing

 private:
  std::atomic<bool> raised_ = false;
  std::mutex mutex_;  // taken by failing threads only
  std::exception_ptr error_;
};

class Counter;

/// What a thread is waiting for. When all threads wait for what none of them can bring, the run is stuck.
class Waiter {
 public:
  void set(const Counter& on, std::uint64_t target);
  void clear() { on_.store(nullptr, std::memory_order_relaxed); }
  struct Wait {
    const Counter* on;
    std::uint64_t target, value;
    bool blocked() const { return on && value < target; }
    friend bool operator==(const Wait&, const Wait&) = default;
  };
  /// For the thread that watches over the run, and gives nothing on to the others: it is ordered after what it sees.
  Wait glance() const;

 private:
  std::atomic<const Counter*> on_ = nullptr;
  std::atomic<std::uint64_t> target_ = 0;
};

class Counter {
 public:
  /// Its value, without any ordering.
  std::uint64_t glance() const { return value_.load(std::memory_order_relaxed); }
  /// Releases what this thread did before. One thread at a time.
  void advance(std::uint64_t to);
  /// The same by one, from any number of threads at a time.
  void increment();
  /// Until the value has reached `target`, with what was done before it got there. False when the alarm was raised first.
  bool wait(std::uint64_t target, Waiter&, const Alarm&) const;
  /// The same without an edge: for the host that is too far ahead.
  bool wait_unordered(std::uint64_t target, Waiter&, const Alarm&) const;
  /// Sleeps until the value is no longer `seen`, a few milliseconds at most.
  void doze(std::uint64_t seen) const;

 private:
  void wake() const;
  std::atomic<std::uint64_t> value_ = 0;
};

}  // namespace shardsim::threads
