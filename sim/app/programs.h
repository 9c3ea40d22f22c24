// Programs: what each rank of a scheme will do, found without a backend: ranks that do the same may be folded (simgrid/folding.h).
#pragma once
#include <memory>
#include <string>

#include "app/scenario.h"
#include "app/training_set.h"
#include "backends/simgrid/backend.h"

namespace shardsim {

struct FoldingPlan {
  std::shared_ptr<const Programs> programs;  ///< null: every rank is simulated
  std::string why_not;                       ///< in a few words, where the scenario would have folded
};

/// Goes through every rank's program, op by op, on a device that does nothing; through the first's and the last's, if the scheme
/// says that all are alike (Scheme::is_even): throws IllegalStep if these are not. Throws ScenarioError where `ranks: folded`
/// cannot be had; `auto` says why not.
FoldingPlan plan_folding(const Scenario&, const TrainingSet&, const SchemeChoice&);

}  // namespace shardsim
