// CudaBackend: the ranks of a run on real GPUs: N of them on one card (loopback), or each on a card of its own (NCCL).
#pragma once
#include <memory>
#include <string>

#include "core/backend.h"

namespace shardsim {

namespace cuda {
class Rendezvous;
}

enum class CudaFabric { loopback, nccl };

struct CudaSettings : BackendSettings {
  CudaFabric fabric = CudaFabric::loopback;
  double stall_seconds = 60;          ///< a host that has waited so long for its GPU gives up, and says for what
  cuda::Rendezvous* nodes = nullptr;  ///< where this process has only some of the ranks: those of its node (NCCL)
};

/// Why so many ranks cannot run here, in one line; empty if they can. Begins CUDA in this process, which must not fork later.
std::string cuda_refusal(const CudaSettings&, int ranks);

/// What CUDA calls the first GPU.
std::string cuda_gpu_name();

/// The same scheme objects as on the other backends. Where one rank fails, the others stop within seconds, on all nodes, and the
/// first error is thrown with its rank, verb and unit.
class CudaBackend : public Backend {
 public:
  explicit CudaBackend(CudaSettings);
  ~CudaBackend() override;
  void run(int world, const Body&) override;
  /// A rank of this node's.
  const Device& device(int rank) const override;

 private:
  struct Run;
  CudaSettings settings_;
  std::unique_ptr<Run> run_;
};

}  // namespace shardsim
