// ThreadsFabric: collectives through shared memory. The members meet; the last to arrive moves the numbers in the ring's order.
#pragma once
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "backends/threads/device.h"
#include "core/fabric.h"

namespace shardsim::threads {

/// The meeting place of a group's members on one lane. Streams are in order, so the k-th meeting is everyone's k-th collective.
class Communicator {
 public:
  explicit Communicator(int size) : parts_(size) {}
  /// Returns when the numbers of all members have moved; at once when the alarm is raised.
  void meet(const Collective&, bool numerics, Waiter&, const Alarm&);

 private:
  std::vector<Collective> parts_;
  std::atomic<int> arrived_ = 0;
  Counter meetings_;
};

/// All communicators of a run.
class Communicators {
 public:
  /// Called by the hosts at enqueue, so that the workers of different lanes share nothing.
  Communicator& of(const Group&, Lane);

 private:
  std::mutex mutex_;
  std::map<std::tuple<int, int, int, Lane>, Communicator> all_;
};

class ThreadsFabric : public Fabric {
 public:
  ThreadsFabric(ThreadsDevice& device, IssueOrder& order, Communicators& communicators, const Alarm& alarm)
      : Fabric(device, order), device_(device), communicators_(communicators), alarm_(alarm) {}

 protected:
  void enqueue(const Collective&) override;

 private:
  ThreadsDevice& device_;
  Communicators& communicators_;
  const Alarm& alarm_;
};

}  // namespace shardsim::threads
