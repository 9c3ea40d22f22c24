// Real GPUs as a backend.
#include "app/on_gpus.h"

#include "app/process.h"
#include "app/run.h"
#if SHARDSIM_CUDA
#include "backends/cuda/backend.h"
#include "backends/cuda/greeting.h"
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
  settings.stall_seconds = cuda::Waits::of(scenario.patience).stall;  // it knows more than whoever ends this process
  return settings;
}

std::unique_ptr<cuda::Rendezvous> rendezvous(const Scenario& scenario) {
  return std::make_unique<cuda::Rendezvous>(scenario.nodes, cuda::Waits::of(scenario.patience), interrupted);
}

/// `here`: why this node cannot run its ranks; empty if it can.
void meet(Scenario& scenario, const std::string& here) {
  cuda::Waits waits = cuda::Waits::of(scenario.patience);
  if (!here.empty()) waits.patience = waits.refusal;
  scenario.nodes.met = cuda::greet(scenario.nodes, SHARDSIM_VERSION "\n" + scenario.text, waits);
  const auto nodes = rendezvous(scenario);
  if (here.empty()) nodes->barrier();
  else nodes->fail(std::make_exception_ptr(ScenarioError(here)));
}

}  // namespace

void check_gpus(Scenario& scenario) {
  const ProcessEnd end = run_in_process([&](int) { return cuda_refusal(settings_of(scenario, {}), scenario.nodes.each()); });
  std::string refusal = end.answered ? end.answer : "cuda: CUDA ended the process that asked for GPUs with " + end.how;
  try {
    if (scenario.nodes.count > 1) meet(scenario, refusal);
  } catch (const ScenarioError& error) {
    if (refusal.empty()) refusal = error.what();
  }
  if (!refusal.empty()) throw ScenarioError(scenario.file.string() + ": backend: " + refusal);
}

OnGpus on_gpus(const Scenario& scenario, const BackendSettings& asked) {
  OnGpus made;
  CudaSettings settings = settings_of(scenario, asked);
  if (scenario.nodes.count > 1) made.nodes = rendezvous(scenario);
  settings.nodes = made.nodes.get();
  made.backend = std::make_unique<CudaBackend>(settings);
  made.gpu = cuda_gpu_name();
  if (!made.nodes) return made;
  made.crew = {scenario.nodes.first(scenario.nodes.me), scenario.nodes.each(),
               [at = settings.nodes](std::string bytes) { return at->gather(std::move(bytes)); }};
  made.tell = [at = settings.nodes](std::exception_ptr error) { at->fail(std::move(error)); };
  made.part = [at = settings.nodes] { at->barrier(); };
  return made;
}

void leave_nodes(const Scenario& scenario, const std::exception_ptr& why) {
  if (scenario.nodes.met) cuda::leave(scenario.nodes, why);
}
#else
void check_gpus(Scenario& scenario) {
  throw ScenarioError(scenario.file.string() +
                      ": backend: this program was built without CUDA; build it where nvcc is, or use backend: simgrid or threads");
}

OnGpus on_gpus(const Scenario&, const BackendSettings&) { return {}; }
void leave_nodes(const Scenario&, const std::exception_ptr&) {}
#endif

}  // namespace shardsim
