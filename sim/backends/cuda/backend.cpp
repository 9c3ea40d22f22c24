// CudaBackend: a host thread per rank, and the first error.
#include "backends/cuda/backend.h"

#include <cuda_runtime.h>

#include <vector>

#include "backends/cuda/checked.h"
#include "backends/cuda/loopback.h"
#include "backends/cuda/nccl.h"
#include "backends/cuda/rendezvous.h"
#include "backends/cuda/ring.h"

namespace shardsim {

using cuda::CudaDevice;

struct CudaBackend::Run {
  Run(int first_rank, int ranks) : first(first_rank), hosts(ranks), devices(std::size_t(ranks)) {}
  int first;
  cuda::Hosts hosts;
  IssueOrder order;
  std::unique_ptr<cuda::Nccl> nccl;
  cuda::LoopbackGroups groups;
  std::vector<std::unique_ptr<CudaDevice>> devices;  // before the groups: their events
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
  if (nodes) nodes->barrier(true);  // the clocks of all nodes begin here, but for one message's latency
  const cuda::Instant start = std::chrono::steady_clock::now();

  cuda::Hosts& hosts = run_->hosts;
  const auto stop_if_failed = [&hosts] {
    if (hosts.failed()) throw cuda::Stopped();
  };
  struct Own {
    std::unique_ptr<Fabric> fabric;
    cuda::NcclFabric* nccl = nullptr;
  };
  std::vector<Own> of_ranks(run_->devices.size());

  const auto live = [&](int rank) {
    Own& own = of_ranks[std::size_t(rank - first)];
    const std::function<void()> watch = [&own, stop_if_failed] {
      stop_if_failed();
      if (own.nccl) own.nccl->look_for_errors();
    };
    const int gpu = by_nccl ? rank - first : 0;
    auto& device = run_->devices[std::size_t(rank - first)] = std::make_unique<CudaDevice>(rank, gpu, settings_, start, watch);
    device->give_up_after(settings_.stall_seconds);
    if (by_nccl) {
      auto made = std::make_unique<cuda::NcclFabric>(*device, run_->order, *run_->nccl, stop_if_failed);
      own.nccl = made.get();
      own.fabric = std::move(made);
    } else {
      own.fabric = std::make_unique<cuda::LoopbackFabric>(*device, run_->order, run_->groups, hosts);
    }
    body(*device, *own.fabric);
    own.fabric->finish();
    device->synchronize();
  };
  std::string last = "none";  // collective of the first rank here
  const auto ended = [&](int rank) {
    Own& own = of_ranks[std::size_t(rank - first)];
    if (own.nccl && hosts.failed()) {
      if (rank == first) last = own.nccl->last();
      own.nccl->abort();
    }
    if (auto& device = run_->devices[std::size_t(rank - first)]) device->end();
    own = {};
  };
  try {
    hosts.run(first, nodes, live, ended);
  } catch (const cuda::NodeGone& error) {
    throw cuda::NodeGone(std::string(error.what()) + "; rank " + std::to_string(first) + "'s last collective was " + last);
  }
}

}  // namespace shardsim
