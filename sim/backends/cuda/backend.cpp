// CudaBackend: a host thread per rank, and the first error.
#include "backends/cuda/backend.h"

#include <cuda_runtime.h>

#include <thread>
#include <vector>

#include "backends/cuda/checked.h"
#include "backends/cuda/loopback.h"
#include "backends/cuda/nccl.h"
#include "backends/cuda/ring.h"

namespace shardsim {

using cuda::CudaDevice;

struct CudaBackend::Run {
  explicit Run(int world) : hosts(world), devices(std::size_t(world)) {}
  cuda::Hosts hosts;
  IssueOrder order;
  std::unique_ptr<cuda::Nccl> nccl;
  cuda::LoopbackGroups groups;
  std::vector<std::unique_ptr<CudaDevice>> devices;  // before the groups: their events
};

std::string cuda_refusal(const CudaSettings& settings, int world) {
  int gpus = 0;
  const cudaError_t answer = cudaGetDeviceCount(&gpus);
  if (answer != cudaSuccess || gpus == 0)
    return std::string("cuda: this machine has no GPU that CUDA can use (") +
           (answer == cudaSuccess ? "none is visible" : cudaGetErrorString(answer)) +
           "); run it where there is one, or use backend: simgrid or threads";
  if (settings.fabric == CudaFabric::nccl && gpus < world)
    return "cuda: NCCL needs a GPU for each of the " + std::to_string(world) + " ranks, and this machine has " +
           std::to_string(gpus) + "; write fabric: loopback to let them share one";
  if (settings.fabric == CudaFabric::loopback && world > cuda::Stretch::most)
    return "cuda: at most " + std::to_string(cuda::Stretch::most) + " ranks share a GPU, not " + std::to_string(world);
  return {};
}

CudaBackend::CudaBackend(CudaSettings settings) : settings_(settings) {}
CudaBackend::~CudaBackend() = default;

const Device& CudaBackend::device(int rank) const { return *run_->devices.at(std::size_t(rank)); }

std::string cuda_gpu_name() {
  cudaDeviceProp facts{};
  cuda::ensure(cudaGetDeviceProperties(&facts, 0), "the GPU has no name");
  return facts.name;
}

void CudaBackend::run(int world, const Body& body) {
  if (world < 1 || run_) throw std::logic_error("a CudaBackend runs once, on one rank or more");
  if (const std::string refusal = cuda_refusal(settings_, world); !refusal.empty()) throw ScenarioError(refusal);
  run_ = std::make_unique<Run>(world);
  const bool by_nccl = settings_.fabric == CudaFabric::nccl;
  if (by_nccl) run_->nccl = std::make_unique<cuda::Nccl>();
  const cuda::Instant start = std::chrono::steady_clock::now();

  const auto live = [&](int rank) {
    cuda::Hosts& hosts = run_->hosts;
    cuda::NcclFabric* nccl = nullptr;
    const auto stop_if_failed = [&hosts] {
      if (hosts.failed()) throw cuda::Stopped();
    };
    const std::function<void()> watch = [&] {
      stop_if_failed();
      if (nccl) nccl->look_for_errors();
    };
    std::unique_ptr<Fabric> fabric;
    try {
      const int gpu = by_nccl ? rank : 0;
      auto& device = run_->devices[std::size_t(rank)] = std::make_unique<CudaDevice>(rank, gpu, settings_, start, watch);
      device->give_up_after(settings_.stall_seconds);
      if (by_nccl) {
        auto made = std::make_unique<cuda::NcclFabric>(*device, run_->order, *run_->nccl, stop_if_failed);
        nccl = made.get();
        fabric = std::move(made);
      } else {
        fabric = std::make_unique<cuda::LoopbackFabric>(*device, run_->order, run_->groups, hosts);
      }
      body(*device, *fabric);
      fabric->finish();
      device->synchronize();
      hosts.finish();
    } catch (const cuda::Stopped&) {
      hosts.fail({});
    } catch (...) {
      hosts.fail(std::current_exception());
    }
    if (nccl && hosts.failed()) nccl->abort();
    if (auto& device = run_->devices[std::size_t(rank)]) device->end();
  };
  std::vector<std::thread> threads;
  try {
    for (int rank = 0; rank < world; ++rank) threads.emplace_back(live, rank);
  } catch (...) {  // no more threads to be had
    run_->hosts.fail(std::current_exception());
  }
  for (std::thread& thread : threads) thread.join();
  if (run_->hosts.error()) std::rethrow_exception(run_->hosts.error());
  if (run_->hosts.failed()) throw cuda::GpuError("the run was stopped");
}

}  // namespace shardsim
