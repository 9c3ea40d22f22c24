// Real GPUs as a backend, where the program has CUDA in it and the machine has what the scenario asks for.
#pragma once
#include <memory>
#include <string>

#include "app/scenario.h"
#include "core/backend.h"

namespace shardsim {

struct OnGpus {
  std::unique_ptr<Backend> backend;
  std::string gpu;  ///< what CUDA calls the first one
};

/// Throws ScenarioError, in one line that says what else could be done, where the scenario cannot be run on GPUs here. Asks in a
/// process of its own: CUDA, once begun, does not survive a fork.
void check_gpus(const Scenario&);
/// Begins CUDA in this process.
OnGpus on_gpus(const Scenario&, const BackendSettings&);

}  // namespace shardsim
