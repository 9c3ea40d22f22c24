// Real GPUs as a backend.
#include "app/on_gpus.h"

#include <algorithm>

#include "app/process.h"
#if SHARDSIM_CUDA
#include "backends/cuda/backend.h"
#include "backends/cuda/rendezvous.h"
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

/// Begins when all nodes are there, with the same scenario and for the same purpose. Null where there is only one.
std::shared_ptr<cuda::Rendezvous> meet(const Scenario& scenario, const std::string& purpose, double patience) {
  if (scenario.nodes.count == 1) return nullptr;
  return std::make_shared<cuda::Rendezvous>(scenario.nodes, SHARDSIM_VERSION "\n" + purpose + "\n" + scenario.text, patience);
}

/// Empty if all nodes can run their ranks.
std::string refusal_of(const Scenario& scenario) {
  const std::string here = cuda_refusal(settings_of(scenario, {}), scenario.nodes.each());
  try {
    constexpr double moment = 10;  // who cannot run need not wait long to say so
    const auto nodes =
        meet(scenario, "before the first scheme", here.empty() ? scenario.patience : std::min(moment, scenario.patience));
    if (nodes && here.empty()) nodes->barrier();
    if (nodes && !here.empty()) nodes->fail(std::make_exception_ptr(ScenarioError(here)));
    return here;
  } catch (const std::exception& error) {
    return here.empty() ? error.what() : here;
  }
}

}  // namespace

void check_gpus(const Scenario& scenario) {
  const ProcessEnd end = run_in_process([&](int) { return refusal_of(scenario); });
  const std::string refusal = end.answered ? end.answer : "cuda: CUDA ended the process that asked for GPUs with " + end.how;
  if (!refusal.empty()) throw ScenarioError(scenario.file.string() + ": backend: " + refusal);
}

OnGpus on_gpus(const Scenario& scenario, const SchemeChoice& choice, const BackendSettings& asked) {
  OnGpus made;
  CudaSettings settings = settings_of(scenario, asked);
  made.nodes = meet(scenario, choice.label, settings.stall_seconds);
  settings.nodes = made.nodes.get();
  made.backend = std::make_unique<CudaBackend>(settings);
  made.gpu = cuda_gpu_name();
  if (!made.nodes) return made;
  made.crew = {scenario.nodes.first(scenario.nodes.me), scenario.nodes.each(),
               [at = settings.nodes](std::string bytes) { return at->gather(std::move(bytes)); }};
  made.tell = [at = settings.nodes](std::exception_ptr error) { at->fail(std::move(error)); };
  return made;
}
#else
void check_gpus(const Scenario& scenario) {
  throw ScenarioError(scenario.file.string() +
                      ": backend: this program was built without CUDA; build it where nvcc is, or use backend: simgrid or threads");
}

OnGpus on_gpus(const Scenario& scenario, const SchemeChoice&, const BackendSettings&) {
  check_gpus(scenario);
  return {};
}
#endif

}  // namespace shardsim
