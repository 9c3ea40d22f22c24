// Score: the program that all ranks of a run play, if one rank's is everybody's.
#pragma once
#include <memory>

#include "app/scenario.h"
#include "app/training_set.h"
#include "backends/simgrid/tape.h"

namespace shardsim {

/// Makes a rank's own model and scheme; scenario, set and choice have to outlive it.
Original original_of(const Scenario&, const TrainingSet&, const SchemeChoice&);

/// Where nothing is checked and nothing is computed, ranks whose program is the same need not go through it each: it is taken down
/// once and played by all. Null: they do.
std::unique_ptr<Score> score_of(const Scenario&, const TrainingSet&, const SchemeChoice&);

}  // namespace shardsim
