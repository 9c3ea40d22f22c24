// Stream: the FIFO and its timers.
#include "backends/simgrid/stream.h"

#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u/Engine.hpp>

#include <algorithm>
#include <utility>

#include "backends/simgrid/device.h"
#include "backends/simgrid/fabric.h"
#include "numerics/host.h"

namespace shardsim::simgrid_backend {
namespace {

double now() { return simgrid::s4u::Engine::get_clock(); }

}  // namespace

void Stream::push(Entry entry) {
  device_->enqueued();
  ++enqueued_;
  queue_.push_back(entry);
  if (idle_) pump();
}

void Stream::act(double from, Action action) {
  actions_.push_back(std::move(action));
  push(Entry(Entry::action, from));
}

void Stream::launch(Label label, double from, double call, double seconds, std::size_t op, const Op* arithmetic) {
  if (arithmetic) ops_.push_back(*arithmetic);
  Entry entry(Entry::run, from);
  entry.op = std::uint8_t(op);
  entry.verb = label.verb, entry.unit = label.unit;
  entry.seconds = seconds;
  entry.call = call;
  push(entry);
}

std::uint64_t Stream::record() {
  if (!queue_.empty()) queue_.back().marked = true;
  return enqueued_;
}

void Stream::pump() {
  while (idle_ && !queue_.empty() && !device_->world().failed()) {
    Entry& head = queue_.front();
    if (head.kind == Entry::wait) {
      Stream& other = device_->stream(Lane(head.op));
      if (other.has_finished(head.at)) {
        finish(1, clock_);
      } else {
        idle_ = false;
        other.waiters_.push_back({head.at, this});
      }
    } else if (head.kind == Entry::collective) {
      idle_ = false;
      clock_ = std::max(clock_, head.from);
      device_->world().at(
          clock_, [this] { queue_.front().communicator->arrive(*this, clock_); }, this);
    } else {
      start_batch();
    }
  }
}

template <class Each>
double Stream::follow(std::size_t entries, const Each& each) const {
  Pace::Walk walk(device_->pace());
  double date = clock_;
  for (std::size_t i = 0; i < entries; ++i) {
    const Entry& entry = queue_[i];
    const double begin = std::max(date, entry.from), seconds = entry.kind == Entry::run ? entry.seconds : 0;
    date = lane_ == Lane::compute ? walk.end(begin, seconds) : begin + seconds;
    each(entry, begin, date);
  }
  return date;
}

void Stream::start_batch() {
  std::size_t entries = 0;
  while (entries < queue_.size()) {
    const Entry& entry = queue_[entries];
    if (entry.kind == Entry::wait || entry.kind == Entry::collective) break;
    ++entries;
    if (entry.marked) break;
  }
  if (lane_ == Lane::compute) device_->pace().forget(clock_);
  const double date = follow(entries, [](const Entry&, double, double) {});
  if (date <= now()) return end_batch(entries);  // takes no time: the caller's loop goes on
  idle_ = false;
  arm(entries, date);
}

void Stream::arm(std::size_t entries, double date) {
  slowed_ = false;
  device_->world().at(
      date,
      [this, entries] {
        if (slowed_)
          if (const double later = follow(entries, [](const Entry&, double, double) {}); later > now()) return arm(entries, later);
        idle_ = true;
        end_batch(entries);
        pump();
      },
      this);
}

void Stream::end_batch(std::size_t entries) {
  const double end = follow(entries, [this](const Entry& entry, double begin, double date) {
    if (entry.kind == Entry::hold) return device_->hold(*entry.storage, date);
    if (entry.kind == Entry::let_go) return device_->let_go(*entry.storage, date);
    if (entry.kind == Entry::action) {
      const Action action = std::move(actions_.front());
      actions_.pop(1);
      action(date);
      return;
    }
    if (!ops_.empty()) {
      numerics::run(ops_.front());
      ops_.pop(1);
    }
    if (entry.kind != Entry::run || entry.seconds == 0) return;
    Span span{begin, date, 0, 0, entry.unit, lane_, entry.verb, entry.op, false};
    span.issue_begin = entry.from - entry.call, span.issue_end = entry.from;
    device_->record_span(span);
  });
  finish(entries, end);
}

void Stream::end_collective(double date) {
  idle_ = true;
  finish(1, date);
  pump();
}

void Stream::finish(std::size_t entries, double date) {
  queue_.pop(entries);
  finished_ += entries;
  clock_ = std::max(clock_, date);
  device_->dequeued(entries);
  if (waiters_.empty()) return;
  // Waking a stream runs it, which may push waiters here: take ours out first.
  std::vector<Waiter> woken;
  std::erase_if(waiters_, [&](const Waiter& waiter) {
    if (!has_finished(waiter.at)) return false;
    woken.push_back(waiter);
    return true;
  });
  for (const Waiter& waiter : woken) {
    waiter.stream->idle_ = true;
    waiter.stream->finish(1, date);
    waiter.stream->pump();
  }
}

}  // namespace shardsim::simgrid_backend
