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
  std::function<void(std::exception_ptr)> tell;  ///< the other nodes, why this one cannot go on; empty where there are none
};

/// Throws ScenarioError, in one line that says what else could be done, where the scenario cannot be run on GPUs here, or on
/// another node. Asks in a process of its own: CUDA, once begun, does not survive a fork.
void check_gpus(const Scenario&);
/// Begins CUDA in this process, when all nodes have come.
OnGpus on_gpus(const Scenario&, const SchemeChoice&, const BackendSettings&);

}  // namespace shardsim
