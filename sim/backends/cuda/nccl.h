// NcclFabric: collectives by NCCL, one GPU per rank, one communicator per group and lane, each on its lane's stream.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>

#include "backends/cuda/device.h"

namespace shardsim::cuda {

class Rendezvous;

/// NCCL's library, and the names under which communicators of a run are founded. One for all ranks of a process.
class Nccl {
 public:
  /// `nodes`: where processes agree on the names; null for one that has all ranks. Throws GpuError: built without NCCL's header, or
  /// its library is not found.
  explicit Nccl(Rendezvous* nodes);
  ~Nccl();
  struct Loaded;
  Loaded& loaded() { return *loaded_; }

 private:
  std::unique_ptr<Loaded> loaded_;
};

/// NCCL sums in an order of its own, so bits are not those of the ring.
class NcclFabric : public Fabric {
 public:
  /// `watch` throws when the run has failed elsewhere.
  NcclFabric(CudaDevice&, IssueOrder&, Nccl&, std::function<void()> watch);
  /// Ends the communicators; where the run failed, at once, whatever is under way.
  ~NcclFabric() override;
  /// Throws GpuError, naming the last collective, when NCCL has found that another rank or the network is gone.
  void look_for_errors();
  /// Ends all that is under way, so that the streams become empty.
  void abort() noexcept;
  /// The last collective that was enqueued: "all_reduce(unit 3)".
  const std::string& last() const;

 protected:
  void enqueue(const Collective&) override;

 private:
  struct Communicators;
  CudaDevice& device_;
  Nccl& nccl_;
  std::function<void()> watch_;
  std::unique_ptr<Communicators> communicators_;
};

}  // namespace shardsim::cuda
