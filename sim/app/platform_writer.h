// MachineSpec: a cluster in a few numbers, and the SimGrid platform file that it becomes.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace shardsim {

struct MachineSpec {
  std::string title;  ///< a few words in front of the file's comment
  int nodes = 1, gpus_per_node = 8;
  std::string gpu;                        ///< key of the table of GPUs
  std::string intra;                      ///< nvlink | pcie; empty: what the GPU has
  std::optional<double> intra_bandwidth;  ///< bytes per second of a GPU's port and direction that a ring reaches
  std::optional<double> nic;              ///< bytes per second and direction of one NIC on paper; of several nodes only
  int nics_per_node = 1;
  double nic_efficiency = 0.9;  ///< what a ring reaches of it
  bool has_leaves = false;      ///< a fat tree of leaves and a spine, instead of one switch
  int nodes_per_leaf = 4;
  double oversubscription = 1;  ///< of a leaf: bandwidth towards its nodes / towards the spine
};

/// The most that a machine may have of each; the least is 1.
inline constexpr int most_nodes = 1 << 17, most_gpus_per_node = 256, most_nics_per_node = 256, most_nodes_per_leaf = 1024;

/// What is left open is filled in from the GPU's row of the table. Throws ScenarioError, in one line that names the option: an
/// unknown GPU, sizes out of range, a network without nodes, nodes without a network.
MachineSpec completed(MachineSpec);

/// Bytes per second of a ring over all GPUs in order: the least of a GPU's port, a node's NICs together, a leaf's uplink.
double ring_bandwidth(const MachineSpec& completed);

/// Up to so many nodes, a platform's XML spells out every host and link; a larger machine is said in a few facts.
inline constexpr int most_spelled_out = 128;

/// The platform's XML; `command` is kept in it as a property.
std::string platform_xml(const MachineSpec& completed, const std::string& command);

}  // namespace shardsim
