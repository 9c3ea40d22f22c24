// Platform: a SimGrid platform file as ranks. Hosts with a `gpu` property are GPUs, in natural order of their names (gpu2 before
// gpu10); their facts are host properties.
//
//   gpu               name of the GPU (makes the host a GPU)
//   memory            capacity, e.g. 80GiB
//   memory_bandwidth  e.g. 3350GBps
//   fp32_flops, bf16_flops   dense tensor peaks, e.g. 989Tf
//   gemm_efficiency, memory_efficiency   sustained shares, default 1
//   kernel_seconds    fixed time of a kernel, default 0;  launch_seconds   host time of a launch, default 0
//   node              which machine it is in, interconnect  nvlink | pcie: needed for `latency: nccl` only
#pragma once
#include <string>
#include <vector>

#include "backends/simgrid/backend.h"
#include "cost/gpu.h"

namespace simgrid::s4u {
class Host;
class Link;
}  // namespace simgrid::s4u

namespace shardsim::simgrid_backend {

struct Platform {
  std::string file;                        ///< for messages
  std::vector<simgrid::s4u::Host*> hosts;  ///< of ranks 0 .. world-1
  std::vector<Gpu> gpus;
  std::vector<std::string> nodes, interconnects;
  std::vector<simgrid::s4u::Host*> ends;  ///< of coupled transfers: hosts of ours, without links

  /// A pair of ends that no transfer has used yet.
  std::pair<simgrid::s4u::Host*, simgrid::s4u::Host*> next_pair();

 private:
  std::size_t pairs_ = 0;
};

/// Starts SimGrid's engine (one per process) with the settings that make it exact, and loads the settings' file. Throws
/// ScenarioError: malformed XML, fewer GPUs than `world`, missing or impossible facts. SimGrid itself ends the process on a
/// platform that it refuses; the runner, which runs it in a process of its own, turns that into a ScenarioError.
Platform load_platform(const SimgridSettings&, int world);

}  // namespace shardsim::simgrid_backend
