// Real GPUs as a backend.
#include "app/on_gpus.h"

#include "app/process.h"
#if SHARDSIM_CUDA
#include "backends/cuda/backend.h"
#endif
#include "core/error.h"

namespace shardsim {

#if SHARDSIM_CUDA
namespace {

CudaSettings settings_of(const Scenario& scenario, const BackendSettings& asked) {
  CudaSettings settings;
  static_cast<BackendSettings&>(settings) = asked;
  settings.fabric = scenario.loopback ? CudaFabric::loopback : CudaFabric::nccl;
  settings.stall_seconds = scenario.patience / 2;  // it knows more than whoever ends this process
  return settings;
}

}  // namespace

void check_gpus(const Scenario& scenario) {
  const ProcessEnd end = run_in_process([&](int) { return cuda_refusal(settings_of(scenario, {}), scenario.world); });
  const std::string refusal = end.answered ? end.answer : "cuda: CUDA ended the process that asked for GPUs with " + end.how;
  if (!refusal.empty()) throw ScenarioError(scenario.file.string() + ": backend: " + refusal);
}

OnGpus on_gpus(const Scenario& scenario, const BackendSettings& asked) {
  return {std::make_unique<CudaBackend>(settings_of(scenario, asked)), cuda_gpu_name()};
}
#else
void check_gpus(const Scenario& scenario) {
  throw ScenarioError(scenario.file.string() +
                      ": backend: this program was built without CUDA; build it where nvcc is, or use backend: simgrid or threads");
}

OnGpus on_gpus(const Scenario& scenario, const BackendSettings&) {
  check_gpus(scenario);
  return {};
}
#endif

}  // namespace shardsim
