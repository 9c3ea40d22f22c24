// Cluster: equal nodes of equal GPUs, from a file that says them in a few facts. A file that spells out every host takes SimGrid a
// long time from some thousand on, and its zones cannot say that eight GPUs share a NIC compactly. Of all this SimGrid knows one
// host, on which every rank's actor runs: transfers go over links of ours (sharing.h).
//
//   <zone id="machine" routing="None"> with the properties
//     nodes, gpus_per_node         how many
//     port_bandwidth, port_latency of a GPU's port and direction, to a switch in its node that never blocks
//     nic_bandwidth, nic_latency   of all NICs of a node together, to a leaf or to the spine
//     nodes_per_leaf, leaf_bandwidth, leaf_latency   of a leaf's uplink to the spine; none of them: one switch for all nodes
//   and all others are those of every GPU (platform.h), but for `node`, which is counted.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "backends/simgrid/link.h"

namespace simgrid::s4u {
class Host;
}  // namespace simgrid::s4u

namespace shardsim::simgrid_backend {

using Properties = std::map<std::string, std::string>;

class Cluster {
 public:
  /// Whether a zone's properties say one.
  static bool is_said_by(const Properties& zone) { return zone.contains(sign); }
  static constexpr const char* sign = "gpus_per_node";
  /// Of the properties that are not a GPU's.
  static std::vector<std::string> fact_names();
  /// Throws std::invalid_argument in words that fit behind "zone 'machine': ": facts that are missing or impossible.
  explicit Cluster(const Properties& zone);

  /// SimGrid's root zone, with the one host.
  simgrid::s4u::Host* make_host() const;
  int gpus() const { return nodes_ * gpus_per_node_; }
  int node_of(int gpu) const { return gpu / gpus_per_node_; }
  /// The names that a file of <cluster> nodes would give.
  std::string name_of(int gpu) const;
  std::string name_of(const Link&) const;
  /// Adds the links from GPU to GPU.
  void route(int from, int to, std::vector<const Link*>& links, double& latency) const;

 private:
  /// Equal cables: of a GPU, of a node or of a leaf. Each has its way up and its way down.
  struct Cables {
    std::vector<Link> ways;
    double latency = 0;
    void lay(int count, double bandwidth) { ways.assign(2 * std::size_t(count), {bandwidth}); }
    const Link* up(int i) const { return &ways[2 * std::size_t(i)]; }
    const Link* down(int i) const { return up(i) + 1; }
    bool has(const Link& link) const { return !ways.empty() && &link >= &ways.front() && &link <= &ways.back(); }
  };
  int nodes_, gpus_per_node_, nodes_per_leaf_ = 0;
  Cables ports_, nics_, leaves_;
};

}  // namespace shardsim::simgrid_backend
