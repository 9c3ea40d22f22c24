// Greeting: how the nodes of a run find each other: hello, then welcome or a refusal.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "backends/cuda/nodes.h"
#include "backends/cuda/socket.h"

namespace shardsim::cuda {

/// What frames mean.
enum Said : std::uint32_t { welcome = 1, refused, put, get, value, arrived, go, share, failed, goodbye };

/// On node 0: the connections of nodes 1, 2, ..., who all have been told that they are welcome. Strangers are turned away, and so
/// is who comes with another `run`. Throws ScenarioError when somebody is missing after `patience` seconds.
std::vector<Socket> guests_of(const Nodes&, const std::string& run, double patience, Socket door);
/// On another node: the connection to node 0, when all are there. Throws ScenarioError: nobody answers there in this time, it is
/// not this program, or another run.
Socket host_of(const Nodes&, const std::string& run, double patience);

}  // namespace shardsim::cuda
