// Platform: a SimGrid platform file as ranks. Hosts with a `gpu` property are GPUs, in natural order of their names (gpu2 before
// gpu10); their facts are host properties.
//
//   gpu    name of the GPU; makes the host one. The table of GPUs (`shardsim list gpus`) has the facts of the ones it knows
//   facts  what the table lacks, or what is otherwise here: memory 80GiB, memory_bandwidth 3350GBps, fp32_flops and bf16_flops
//          989Tf, and those of cost/facts.h that have a default: gemm_efficiency 0.65, kernel_seconds 1.2us, ...
//   node   which machine it is in, interconnect  nvlink | pcie: needed for `latency: nccl`; a node's GPUs share a jitter
//   nvls        yes | no (default): the node's switch adds (NVLink SHARP), so that NCCL may run all-reduces in it
//   generation  volta | ampere | hopper | blackwell, for NCCL's tuner; default ampere, and hopper where nvls is yes
#pragma once
#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/simgrid/backend.h"
#include "backends/simgrid/cluster.h"
#include "cost/gpu.h"

namespace shardsim::simgrid_backend {

struct Platform {
  std::string file;                        ///< for messages
  int messages = 2;                        ///< the settings' descriptor for SimGrid's words
  std::vector<simgrid::s4u::Host*> hosts;  ///< of ranks 0 .. world-1; of a cluster one for all
  std::deque<Gpu> kinds;                   ///< of GPU
  std::vector<const Gpu*> gpus;            ///< each rank's kind
  std::vector<std::string> nodes, interconnects, nvls, generations;
  std::vector<simgrid::s4u::Host*> ends;  ///< of coupled transfers: hosts of ours, without links

  std::optional<Cluster> cluster;  ///< if the file says one in a few facts (cluster.h)

  simgrid::s4u::Host* host_of(int rank) const { return hosts[cluster ? 0 : std::size_t(rank)]; }
  std::string name_of(int rank) const;  ///< its GPU's, for messages
  std::string name_of(const Link&) const;
  /// Adds the links from a rank's GPU to another's; their latency, seconds. Throws ScenarioError where there is no route.
  void route(int from, int to, std::vector<const Link*>& links, double& latency) const;
  /// A pair of ends that no transfer has used yet.
  std::pair<simgrid::s4u::Host*, simgrid::s4u::Host*> next_pair();

  std::unordered_map<const simgrid::s4u::Link*, Link> links;  ///< SimGrid's

 private:
  std::size_t pairs_ = 0;
};

/// Every link's, by name.
template <class Bytes>
LinkBytes by_name(const Platform& platform, const Bytes& bytes_of_links) {
  LinkBytes named;
  named.reserve(bytes_of_links.size());
  for (const auto& [link, bytes] : bytes_of_links) named.emplace_back(platform.name_of(*link), bytes);
  std::sort(named.begin(), named.end());
  return named;
}

/// Starts SimGrid's engine (one per process) with the settings that make it exact, and loads the settings' file. Throws
/// ScenarioError: malformed XML, what platform_check.h refuses, fewer GPUs than `world`, missing or impossible facts. SimGrid
/// itself ends the process on a platform that it refuses; the runner, which runs it in a process of its own, turns that into a
/// ScenarioError.
Platform load_platform(const SimgridSettings&, int world);

}  // namespace shardsim::simgrid_backend
