// Folded runs beside runs of all ranks: the schemes, the machines with their faults, and the comparison.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "app/platform_writer.h"
#include "systems/systems.h"

namespace shardsim::test {

struct FoldingCase {
  std::string scheme;
  Words words = {};
  bool is_even = false;  ///< wants sizes that the ranks divide
};

/// Every built-in scheme; of DeepSpeed every stage, and the ways that have collectives of their own.
std::vector<FoldingCase> folding_cases();
bool is_textbook(const std::string& scheme);

MachineSpec machine(int nodes, int gpus_per_node, int nodes_per_leaf = 0);

/// What a GPU has of its own: further facts, and the bandwidth of its port.
struct OwnParts {
  std::string facts = {}, port = "360GBps";
};
/// The platform file with every host and port of a node spelled out.
std::string spelled_out(const std::string& xml, const MachineSpec&, int node, const std::function<OwnParts(int gpu)>&);
std::string with_bandwidth(std::string xml, const std::string& link, const std::string& bandwidth);

enum class Fault { none, slow_rank, slow_link };
/// The machine's platform file. The slow rank is one GPU whose kernels take longer; the slow link is a leaf's uplink, without
/// leaves a node's NICs, and of a single node a GPU's port.
std::string with_fault(const MachineSpec&, Fault);

/// A thin GPT-2 in bf16 that is not computed, two steps; half of the ranks share a copy where a scheme asks for that.
Scenario cost_only(int world);
/// The same with layers of tens of MiB, so that bandwidths count; `is_even`: up to 512 ranks divide every tensor.
Scenario cost_only_wide(int world, bool is_even);

struct FoldedRun {
  std::size_t simulated;  ///< ranks
  double difference;      ///< the largest of a step's begin or end, relative
};
/// Runs it with all ranks and with folded ones, and checks that bytes are the same and dates as close as 1e-9.
FoldedRun check_folded_is_all(Scenario, const FoldingCase&);

}  // namespace shardsim::test
