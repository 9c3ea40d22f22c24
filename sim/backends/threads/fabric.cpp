// ThreadsFabric: how the members of a collective meet, and what each of them has sent.
#include "backends/threads/fabric.h"

#include "numerics/ring.h"

namespace shardsim::threads {

void Communicator::meet(const Collective& mine, bool numerics, Waiter& waiter, const Alarm& alarm) {
  const std::uint64_t before = meetings_.glance();
  parts_[mine.group.me] = mine;
  const int present = arrived_.fetch_add(1, std::memory_order_acq_rel) + 1;
  if (present < int(parts_.size())) {
    meetings_.wait(before + 1, waiter, alarm);
    return;
  }
  if (numerics) numerics::move_in_ring_order(parts_);
  arrived_.store(0, std::memory_order_relaxed);
  meetings_.advance(before + 1);
}

Communicator& Communicators::of(const Group& group, Lane lane) {
  const std::lock_guard lock(mutex_);
  return all_.try_emplace({group.first, group.stride, group.size, lane}, group.size).first->second;
}

void ThreadsFabric::enqueue(const Collective& collective) {
  Communicator& communicator = communicators_.of(collective.group, collective.lane);
  const Span span{0,
                  0,
                  0,
                  collective.bytes(),
                  collective.label.unit,
                  collective.lane,
                  collective.label.verb,
                  Span::collective,
                  collective.payload == Payload::control,
                  collective.verb,
                  collective.whole().dtype(),
                  false,
                  collective.group};
  // Never `this`: when a body throws, the fabric goes before the streams have stopped.
  device_.enqueue_span(span, [collective, &communicator, &device = device_, &alarm = alarm_] {
    communicator.meet(collective, device.numerics(), device.worker(collective.lane), alarm);
    return collective.sent_bytes();
  });
}

}  // namespace shardsim::threads
