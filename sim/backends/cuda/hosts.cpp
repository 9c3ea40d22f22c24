// Hosts: counting who waits, and what becomes of an error.
#include "backends/cuda/hosts.h"

#include <memory>
#include <thread>
#include <vector>

#include "backends/cuda/errors.h"
#include "backends/cuda/rendezvous.h"

namespace shardsim::cuda {

void Hosts::run(int first, Rendezvous* nodes, const std::function<void(int)>& body, const std::function<void(int)>& ended) {
  const auto look_away = [](Rendezvous* from) { from->when_failed({}); };
  std::unique_ptr<Rendezvous, decltype(look_away)> watched(nodes, look_away);
  if (nodes) nodes->when_failed([this](const std::exception_ptr& error) { fail(error); });
  const auto fail_everywhere = [&](const std::exception_ptr& error) {
    if (fail(error) && nodes) nodes->fail(error);
  };
  const auto live = [&](int rank) {
    try {
      body(rank);
      finish();
    } catch (const Stopped&) {
      fail({});
    } catch (const GpuError&) {
      if (nodes) nodes->await_news();  // which node is gone, if one is, says more than what NCCL makes of it
      fail_everywhere(std::current_exception());
    } catch (...) {
      fail_everywhere(std::current_exception());
    }
    ended(rank);
  };
  std::vector<std::thread> threads;
  try {
    for (int rank = first; rank < first + ranks_; ++rank) threads.emplace_back(live, rank);
  } catch (...) {  // no more threads to be had
    fail_everywhere(std::current_exception());
  }
  for (std::thread& thread : threads) thread.join();
  watched.reset();
  if (error_) std::rethrow_exception(error_);
  if (failed()) throw GpuError("the run was stopped");
}

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
  if (failed() || waiting_ == 0 || waiting_ + finished_ < ranks_) return;
  error_ = std::make_exception_ptr(IllegalStep(
      "the ranks wait for each other and none can go on: collectives of overlapping groups, and of all streams, have to "
      "be issued in one order by all ranks"));
  failed_.store(true, std::memory_order_relaxed);
  changed_.notify_all();
}

}  // namespace shardsim::cuda
