// Link: one way of a cable as rings, folding and our own solver see it, be it SimGrid's or one of a cluster (cluster.h).
#pragma once

namespace simgrid::s4u {
class Link;
}  // namespace simgrid::s4u

namespace shardsim::simgrid_backend {

constexpr double least_link_bandwidth = 1, most_link_latency = 1000;  ///< bytes per second; seconds

struct Link {
  double bandwidth = 0;                      ///< bytes per second
  bool is_shared = true;                     ///< false: each transfer has all of it (SimGrid's FATPIPE)
  simgrid::s4u::Link* of_simgrid = nullptr;  ///< null: a cluster's
};

}  // namespace shardsim::simgrid_backend
