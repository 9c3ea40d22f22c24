// World: what all ranks of one simulation share: the first error, and the timers that stop when there is one.
#pragma once
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u/Engine.hpp>

#include <exception>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/composition.h"
#include "core/issue_order.h"

namespace shardsim::simgrid_backend {

class SimDevice;
class Stream;

/// Thrown in a rank's actor when another one has failed: unwinds its body, is reported by nobody.
struct Aborted {};

class World {
 public:
  using Task = std::function<void()>;

  bool failed() const { return error_ != nullptr; }
  /// Keeps the first error and wakes every rank, so that the engine comes to its end.
  void fail(std::exception_ptr);
  std::exception_ptr error() const { return error_; }

  /// Calls f at the date, outside all actors, unless something has failed by then. A date that has come is now.
  /// `whose`: the stream that it is about, if there is one.
  template <class F>
  void at(double date, F f, const Stream* whose = nullptr) {
    if (date <= simgrid::s4u::Engine::get_clock()) {
      guarded(f);
      return;
    }
    later(date, std::move(f), whose);
  }
  /// The same, but never before the caller has returned. Ranks that do the same are due at the same dates: one timer for all.
  void later(double date, Task task, const Stream* whose = nullptr) {
    std::vector<Due>& due = due_[date];
    due.push_back({std::move(task), whose});
    if (due.size() == 1) simgrid::kernel::timer::Timer::set(date, [this, date] { run(date); });
  }

  std::vector<SimDevice*> devices;
  IssueOrder order;
  Compositions compositions;

 private:
  struct Due {
    Task task;
    const Stream* stream;
  };
  void run(double date);
  template <class F>
  void guarded(const F& f) {
    if (failed()) return;
    try {
      f();
    } catch (...) {
      fail(std::current_exception());
    }
  }
  std::exception_ptr error_;
  std::unordered_map<double, std::vector<Due>> due_;
};

}  // namespace shardsim::simgrid_backend
