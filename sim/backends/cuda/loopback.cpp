// LoopbackFabric: who waits for which event.
#include "backends/cuda/loopback.h"

#include "backends/cuda/checked.h"
#include "backends/cuda/ring.h"
#include "backends/cuda/run_op.h"
#include "numerics/ring.h"

namespace shardsim::cuda {
namespace {

/// What is moved between members has one size for all of them, or kernels would write past the end of a buffer.
void check_sizes(const std::vector<Collective>& members) {
  const bool is_rooted = members[0].verb == Verb::reduce || members[0].verb == Verb::broadcast;
  for (int c = 0; c < (is_rooted ? 1 : members[0].group.size); ++c) {
    const auto count = [&](const Collective& of) { return is_rooted ? size(of.whole()) : chunk(of, c).count; };
    for (const Collective& member : members) numerics::check_agree(count(member), count(members[0]));
  }
}

}  // namespace

LoopbackGroup::~LoopbackGroup() {
  if (done_) (void)cudaEventDestroy(done_);
}

void LoopbackGroup::enqueue(const Collective& mine, Stream& on, const CudaDevice& device, Hosts& hosts) {
  const cudaEvent_t ready = on.event(on.mark());
  hosts.meet(
      meeting_, mine.group.size, [&] { parts_[std::size_t(mine.group.me)] = mine, ready_[std::size_t(mine.group.me)] = ready; },
      [&] {
        for (const cudaEvent_t of_member : ready_) on.wait_for(of_member);
        if (device.numerics()) {
          check_sizes(parts_);
          move_in_ring_order(on, parts_, device.poisons());
        }
        if (!done_) ensure(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming), "an event could not be made");
        ensure(cudaEventRecord(done_, on.handle), "an event could not be recorded");
      });
  // Nobody records it again before all members are back here, behind this wait.
  on.wait_for(done_);
}

LoopbackGroup& LoopbackGroups::of(const Group& group, Lane lane) {
  const std::lock_guard lock(mutex_);
  return all_.try_emplace({group.first, group.stride, group.size, lane}, group.size).first->second;
}

void LoopbackFabric::enqueue(const Collective& collective) {
  LoopbackGroup& group = groups_.of(collective.group, collective.lane);
  device_.enqueue_collective(collective, [&](Stream& on) { group.enqueue(collective, on, device_, hosts_); });
}

}  // namespace shardsim::cuda
