// CudaBackend: a host thread per rank, and the first error.
#include "backends/cuda/backend.h"

#include <cuda_runtime.h>

#include <thread>
#include <vector>

#include "backends/cuda/checked.h"
#include "backends/cuda/loopback.h"
#include "backends/cuda/nccl.h"
#include "backends/cuda/rendezvous.h"
#include "backends/cuda/ring.h"

namespace shardsim {

using cuda::CudaDevice;

struct CudaBackend::Run {
  Run(int first_rank, int ranks) : first(first_rank), hosts(ranks), devices(std::size_t(ranks)), last(std::size_t(ranks)) {}
  int first;
  cuda::Hosts hosts;
  IssueOrder order;
  std::unique_ptr<cuda::Nccl> nccl;
  cuda::LoopbackGroups groups;
  std::vector<std::unique_ptr<CudaDevice>> devices;  // before the groups: their events
  std::vector<std::string> last;                     // collective of each rank, where the run failed
};

std::string cuda_refusal(const CudaSettings& settings, int ranks) {
  int gpus = 0;
  const cudaError_t answer = cudaGetDeviceCount(&gpus);
  if (answer != cudaSuccess || gpus == 0)
    return std::string("cuda: this machine has no GPU that CUDA can use (") +
           (answer == cudaSuccess ? "none is visible" : cudaGetErrorString(answer)) +
           "); run it where there is one, or use backend: simgrid or threads";
  if (settings.fabric == CudaFabric::nccl && gpus < ranks)
    return "cuda: NCCL needs a GPU for each of the " + std::to_string(ranks) + " ranks here, and this machine has " +
           std::to_string(gpus) + "; write fabric: loopback to let them share one";
  if (settings.fabric == CudaFabric::loopback && ranks > cuda::Stretch::most)
    return "cuda: at most " + std::to_string(cuda::Stretch::most) + " ranks share a GPU, not " + std::to_string(ranks);
  return {};
}

CudaBackend::CudaBackend(CudaSettings settings) : settings_(settings) {}
CudaBackend::~CudaBackend() = default;

const Device& CudaBackend::device(int rank) const { return *run_->devices.at(std::size_t(rank - run_->first)); }

std::string cuda_gpu_name() {
  cudaDeviceProp facts{};
  cuda::ensure(cudaGetDeviceProperties(&facts, 0), "the GPU has no name");
  return facts.name;
}

void CudaBackend::run(int world, const Body& body) {
  if (world < 1 || run_) throw std::logic_error("a CudaBackend runs once, on one rank or more");
  cuda::Rendezvous* const nodes = settings_.nodes;
  const int first = nodes ? nodes->nodes().first(nodes->nodes().me) : 0, ranks = nodes ? nodes->nodes().each() : world;
  if (const std::string refusal = cuda_refusal(settings_, ranks); !refusal.empty()) throw ScenarioError(refusal);
  run_ = std::make_unique<Run>(first, ranks);
  const bool by_nccl = settings_.fabric == CudaFabric::nccl;
  if (by_nccl) run_->nccl = std::make_unique<cuda::Nccl>(nodes);
  const auto look_away = [](cuda::Rendezvous* from) { from->when_failed({}); };
  std::unique_ptr<cuda::Rendezvous, decltype(look_away)> watched(nodes, look_away);
  if (nodes) {
    nodes->when_failed([this](const std::exception_ptr& error) { run_->hosts.fail(error); });
    nodes->barrier();  // the clocks of all nodes begin here, but for one message's latency
  }
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
    const auto fail = [&](const std::exception_ptr& error) {
      if (hosts.fail(error) && nodes) nodes->fail(error);
    };
    std::unique_ptr<Fabric> fabric;
    try {
      const int gpu = by_nccl ? rank - first : 0;
      auto& device = run_->devices[std::size_t(rank - first)] = std::make_unique<CudaDevice>(rank, gpu, settings_, start, watch);
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
    } catch (const cuda::GpuError&) {
      constexpr double seconds = 2;  // which node is gone, if one is, says more than what NCCL makes of it
      if (nodes) nodes->await_failure(seconds);
      fail(std::current_exception());
    } catch (...) {
      fail(std::current_exception());
    }
    if (nccl && hosts.failed()) {
      run_->last[std::size_t(rank - first)] = nccl->last();
      nccl->abort();
    }
    if (auto& device = run_->devices[std::size_t(rank - first)]) device->end();
  };
  std::vector<std::thread> threads;
  try {
    for (int rank = first; rank < first + ranks; ++rank) threads.emplace_back(live, rank);
  } catch (...) {  // no more threads to be had
    run_->hosts.fail(std::current_exception());
  }
  for (std::thread& thread : threads) thread.join();
  watched.reset();
  try {
    if (run_->hosts.error()) std::rethrow_exception(run_->hosts.error());
  } catch (const cuda::NodeGone& error) {
    throw cuda::NodeGone(std::string(error.what()) + "; rank " + std::to_string(first) + "'s last collective was " +
                         (run_->last[0].empty() ? "none" : run_->last[0]));
  }
  if (run_->hosts.failed()) throw cuda::GpuError("the run was stopped");
}

}  // namespace shardsim
