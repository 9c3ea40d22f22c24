// LoopbackFabric: collectives of ranks that share one GPU. The last host to issue one enqueues the kernels that move all members'
// numbers, in the ring's order, behind an event of each; every member's stream then waits for them.
#pragma once
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "backends/cuda/device.h"
#include "backends/cuda/hosts.h"

namespace shardsim::cuda {

/// A group's members on one lane.
class LoopbackGroup {
 public:
  explicit LoopbackGroup(int size) : parts_(std::size_t(size)), ready_(std::size_t(size)) {}
  ~LoopbackGroup();
  LoopbackGroup(const LoopbackGroup&) = delete;
  LoopbackGroup& operator=(const LoopbackGroup&) = delete;
  void enqueue(const Collective&, Stream&, const CudaDevice&, Hosts&);

 private:
  Meeting meeting_;
  std::vector<Collective> parts_;
  std::vector<cudaEvent_t> ready_;
  cudaEvent_t done_ = nullptr;
};

/// All groups of a run.
class LoopbackGroups {
 public:
  LoopbackGroup& of(const Group&, Lane);

 private:
  std::mutex mutex_;
  std::map<std::tuple<int, int, int, Lane>, LoopbackGroup> all_;
};

class LoopbackFabric : public Fabric {
 public:
  LoopbackFabric(CudaDevice& device, IssueOrder& order, LoopbackGroups& groups, Hosts& hosts)
      : Fabric(device, order), device_(device), groups_(groups), hosts_(hosts) {}

 protected:
  void enqueue(const Collective&) override;

 private:
  CudaDevice& device_;
  LoopbackGroups& groups_;
  Hosts& hosts_;
};

}  // namespace shardsim::cuda
