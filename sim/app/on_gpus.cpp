// Real GPUs as a backend.
#include "app/on_gpus.h"

#if SHARDSIM_CUDA
#include "backends/cuda/backend.h"
#endif
#include "core/error.h"

namespace shardsim {

OnGpus on_gpus(const Scenario& scenario, [[maybe_unused]] const BackendSettings& asked) {
  std::string refusal = "this program was built without CUDA; build it where nvcc is, or use backend: simgrid or threads";
#if SHARDSIM_CUDA
  CudaSettings settings;
  static_cast<BackendSettings&>(settings) = asked;
  settings.fabric = scenario.loopback ? CudaFabric::loopback : CudaFabric::nccl;
  settings.stall_seconds = scenario.patience / 2;  // it knows more than whoever ends this process
  refusal = cuda_refusal(settings, scenario.world);
  if (refusal.empty()) return {std::make_unique<CudaBackend>(settings), cuda_gpu_name()};
#endif
  throw ScenarioError(scenario.file.string() + ": backend: " + refusal);
}

}  // namespace shardsim
