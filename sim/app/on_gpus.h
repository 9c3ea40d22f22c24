// Real GPUs as a backend, where the program has CUDA in it and the machine has what the scenario asks for.
#pragma once
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "app/scenario.h"
#include "app/share.h"
#include "core/backend.h"

namespace shardsim {

namespace cuda {
class Rendezvous;
}

struct OnGpus {
  std::shared_ptr<cuda::Rendezvous> nodes;  ///< where this process runs the ranks of its node, and others the rest
  std::unique_ptr<Backend> backend;
  std::string gpu;  ///< what CUDA calls the first one
  Crew crew;
  // Empty where there is one node.
  std::function<void(std::exception_ptr)> tell;  ///< the other nodes, why this one cannot go on
  std::function<void()> part;                    ///< when all nodes have what they came for; throws what came between
};

/// Waits for the other nodes, who stay connected. Throws ScenarioError, in one line that says what else could be done, where the
/// scenario cannot be run on GPUs here, or on another node. Asks in a process of its own: CUDA, once begun, does not survive a
/// fork.
void check_gpus(Scenario&);
/// Begins CUDA in this process.
OnGpus on_gpus(const Scenario&, const BackendSettings&);
/// The other nodes hear why this one goes no further; where it is null, that it is gone. Nothing where there are none.
void leave_nodes(const Scenario&, const std::exception_ptr& why);

}  // namespace shardsim
