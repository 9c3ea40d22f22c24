// Hosts: counting who waits.
#include "backends/cuda/hosts.h"

#include "backends/cuda/errors.h"

namespace shardsim::cuda {

void Hosts::meet(Meeting& meeting, int size, const std::function<void()>& arrive, const std::function<void()>& last) {
  std::unique_lock lock(mutex_);
  if (failed()) throw Stopped();
  arrive();
  if (++meeting.present == size) {
    last();
    meeting.present = 0;
    ++meeting.held;
    waiting_ -= size - 1;
    changed_.notify_all();
    return;
  }
  const std::uint64_t seen = meeting.held;
  ++waiting_;
  fail_if_stuck();
  changed_.wait(lock, [&] { return failed() || meeting.held != seen; });
  if (meeting.held == seen) throw Stopped();
}

void Hosts::finish() {
  const std::lock_guard lock(mutex_);
  ++finished_;
  fail_if_stuck();
}

bool Hosts::fail(std::exception_ptr error) noexcept {
  const std::lock_guard lock(mutex_);
  const bool is_first = !error_ && error;
  if (is_first) error_ = std::move(error);
  failed_.store(true, std::memory_order_relaxed);
  changed_.notify_all();
  return is_first;
}

/// Under the lock.
void Hosts::fail_if_stuck() {
  if (failed() || waiting_ == 0 || waiting_ + finished_ < world_) return;
  error_ = std::make_exception_ptr(IllegalStep(
      "the ranks wait for each other and none can go on: collectives of overlapping groups, and of all streams, have to "
      "be issued in one order by all ranks"));
  failed_.store(true, std::memory_order_relaxed);
  changed_.notify_all();
}

}  // namespace shardsim::cuda
