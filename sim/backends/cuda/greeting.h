// Greeting: how the nodes of a run find each other: hello, then welcome or a refusal.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/nodes.h"
#include "backends/cuda/socket.h"
#include "backends/cuda/waits.h"

namespace shardsim::cuda {

/// What frames mean.
enum Said : std::uint32_t { welcome = 1, refused, put, get, value, arrived, go, share, failed, goodbye };

/// Returns when all nodes are here, with the same `run` (bytes): what becomes Nodes::met. Strangers are turned away, and so is who
/// comes with another run. Throws ScenarioError: somebody is missing, or nobody lets this node in, when its patience ends; what
/// answers is not this program, or runs something else. `door`: where node 0 listens, instead of its endpoint's port.
std::shared_ptr<std::vector<Socket>> greet(const Nodes&, const std::string& run, const Waits&, Socket door = {});

}  // namespace shardsim::cuda
