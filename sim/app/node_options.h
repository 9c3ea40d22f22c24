// Node options: which of a run's machines this is, by torchrun's option names or by what Slurm or Open MPI put into the
// environment.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "app/scenario.h"

namespace shardsim {

struct NodeOptions {
  std::optional<int> nnodes, node_rank;  ///< as in torchrun
  std::string rdzv_endpoint;             ///< "node-a:29500", as in torchrun
  std::string launcher;                  ///< "slurm" or "openmpi" say what the options do not; empty: they say it all
};

/// A variable of the environment; null where it is not set.
using Environment = std::function<const char*(const char*)>;

/// Sets the scenario's nodes. Returns in one line what it took from where; empty for a run on one node. Throws ScenarioError:
/// something is missing, is out of range, or this scenario cannot be run on several nodes.
std::string place_among_nodes(const NodeOptions&, const Environment&, Scenario&);

}  // namespace shardsim
