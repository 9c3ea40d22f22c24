// LoopbackFabric: who waits for which event.
#include "backends/cuda/loopback.h"

#include "backends/cuda/checked.h"
#include "backends/cuda/run_op.h"

namespace shardsim::cuda {

LoopbackGroup::~LoopbackGroup() {
  if (done_) (void)cudaEventDestroy(done_);
}

void LoopbackGroup::enqueue(const Collective& mine, Stream& on, const CudaDevice& device, Hosts& hosts) {
  const cudaEvent_t ready = on.event(on.mark());
  hosts.meet(
      meeting_, mine.group.size, [&] { parts_[std::size_t(mine.group.me)] = mine, ready_[std::size_t(mine.group.me)] = ready; },
      [&] {
        for (const cudaEvent_t of_member : ready_) on.wait_for(of_member);
        if (device.numerics()) move_in_ring_order(on, parts_, device.poisons());
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
