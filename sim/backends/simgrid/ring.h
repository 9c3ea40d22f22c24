// Ring: the links and latencies of a group's ring, read from the platform.
#pragma once
#include "backends/simgrid/fabric.h"

namespace shardsim::simgrid_backend {

/// Looks up the routes between neighbours. Throws ScenarioError when two members have no route, or when `nccl` latencies are asked
/// for and the platform does not say which node a GPU is in.
Ring make_ring(const Platform&, const Group&, Latency);
/// Gives every part of the ring (at most 64 edges) a pair of ends whose route is all of the part's links: a coupled transfer.
void add_transfer_routes(Ring&, Platform&);

}  // namespace shardsim::simgrid_backend
