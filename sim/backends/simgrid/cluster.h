// Cluster: equal nodes of equal GPUs, built through SimGrid's API from a file that says them in a few facts. A file that spells out
// every host takes SimGrid a long time from some thousand on, and its zones cannot say that eight GPUs share a NIC compactly.
//
//   <zone id="machine" routing="None"> with the properties
//     nodes, gpus_per_node         how many
//     port_bandwidth, port_latency of a GPU's port and direction, to a switch in its node that never blocks
//     nic_bandwidth, nic_latency   of all NICs of a node together, to a leaf or to the spine
//     nodes_per_leaf, leaf_bandwidth, leaf_latency   of a leaf's uplink to the spine; none of them: one switch for all nodes
//   and all others are those of every GPU (platform.h), but for `node`, which is counted.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace simgrid::s4u {
class Host;
class Link;
}  // namespace simgrid::s4u

namespace shardsim::simgrid_backend {

using Properties = std::map<std::string, std::string>;

class Cluster {
 public:
  /// Whether a zone's properties say one.
  static bool is_said_by(const Properties& zone) { return zone.contains("gpus_per_node"); }
  /// Makes SimGrid's root zone, a flat star: a host with its port per GPU, and the links of nodes and leaves. Throws ScenarioError
  /// for facts that are missing or impossible.
  Cluster(const std::string& file, const Properties& zone);

  const std::vector<simgrid::s4u::Host*>& hosts() const { return hosts_; }
  int node_of(int gpu) const { return gpu / gpus_per_node_; }
  /// From GPU to GPU. SimGrid's own routes between the hosts know the ports only.
  void route(int from, int to, std::vector<simgrid::s4u::Link*>& links, double& latency) const;

 private:
  struct Cable {
    simgrid::s4u::Link *up, *down;
    double latency;
  };
  Cable cable(const std::string& name, double bandwidth, double latency) const;

  int gpus_per_node_, nodes_per_leaf_ = 0;
  std::vector<simgrid::s4u::Host*> hosts_;
  std::vector<Cable> ports_, nics_, leaves_;
};

}  // namespace shardsim::simgrid_backend
