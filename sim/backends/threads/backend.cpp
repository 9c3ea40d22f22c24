// ThreadsBackend: starts the hosts, watches over them, and reports the first error.
#include "backends/threads/backend.h"

#include <stdexcept>
#include <thread>

#include "core/error.h"
#include "numerics/host.h"

namespace shardsim {

void ThreadsBackend::run(int world, const Body& body) {
  if (world < 1 || !devices_.empty()) throw std::logic_error("a ThreadsBackend runs once, on one rank or more");
  if (settings_.numerics) numerics::fix_blocking();
  const auto start = std::chrono::steady_clock::now();
  for (int rank = 0; rank < world; ++rank)
    devices_.push_back(std::make_unique<threads::ThreadsDevice>(rank, settings_, start, alarm_));
  std::vector<std::thread> hosts;
  try {
    for (int rank = 0; rank < world; ++rank) hosts.emplace_back([this, rank, &body] { live(rank, body); });
    watch();
  } catch (...) {  // no more threads to be had
    alarm_.raise(std::current_exception());
  }
  for (std::thread& host : hosts) host.join();
  for (auto& device : devices_) device->close();
  if (alarm_.error()) std::rethrow_exception(alarm_.error());
  if (alarm_.raised())
    throw IllegalStep(
        "the ranks wait for each other and none can go on: collectives of overlapping groups have to be issued in "
        "one order by all ranks");
}

void ThreadsBackend::live(int rank, const Body& body) {
  threads::ThreadsDevice& device = *devices_[rank];
  try {
    threads::ThreadsFabric fabric(device, order_, communicators_, alarm_);
    body(device, fabric);
    fabric.finish();
    device.synchronize();
  } catch (const threads::Stopped&) {
    alarm_.raise({});
  } catch (...) {
    alarm_.raise(std::current_exception());
  }
  finished_.increment();
  device.host().set(nothing_, 1);  // after the increment: between the two this rank does not look stuck
}

void ThreadsBackend::watch() {
  for (std::uint64_t seen; (seen = finished_.glance()) < devices_.size();) {
    finished_.doze(seen);
    if (finished_.glance() < devices_.size() && !alarm_.raised() && stuck()) alarm_.raise({});
  }
}

/// True when every thread waits for what only another could bring, and did so at the last look too. Whoever can still bring
/// something is not waiting, or waits for a counter that is already there.
bool ThreadsBackend::stuck() {
  std::vector<threads::Waiter::Wait> waits;
  bool all_blocked = true;
  for (auto& device : devices_) {
    waits.push_back(device->host().glance());
    for (int lane = 0; lane < lane_count; ++lane) waits.push_back(device->worker(Lane(lane)).glance());
  }
  for (const auto& wait : waits) all_blocked &= wait.blocked();
  const bool same = waits == waits_;
  waits_ = std::move(waits);
  return all_blocked && same;
}

}  // namespace shardsim
