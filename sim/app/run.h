// Run: carries out a scenario, one scheme after the other.
#pragma once
#include <functional>

#include "app/result.h"
#include "app/scenario.h"
#include "app/share.h"
#include "app/training_set.h"
#include "core/backend.h"

namespace shardsim {

class Score;

/// Called by run_scheme while it works: steps done, steps in all, simulated seconds.
using Progress = std::function<void(int, int, double)>;

/// Refuses arithmetic whose numbers alone are more than this machine's memory (ScenarioError); every number is a float, whatever
/// its type.
void check_that_numbers_fit(const Scenario&, const SchemeChoice&);

/// Runs one scheme, in a forked process (SimGrid has one engine per process, its clock starts at 0; and a scheme may hang). Throws
/// IllegalStep (named: scheme, rank, step, verb, unit) and ScenarioError (a platform that SimGrid refuses). The training set is
/// that of the scenario; several schemes share one.
SchemeResult run_scheme(const Scenario&, const TrainingSet&, const SchemeChoice&, const Progress& = {});

/// Runs one scheme on a backend, in this process. `representative`: of folded ranks, the one that was simulated for each. `crew`:
/// the ranks that are this process's own, where others have the rest. `score`: what all ranks play, if there is one.
SchemeResult run_on(Backend&, const Scenario&, const TrainingSet&, const SchemeChoice&, const Progress& = {},
                    const std::function<int(int)>& representative = {}, const Crew& crew = {}, Score* score = nullptr);

/// True once Ctrl-C was pressed; run_scheme then ends after the step at hand and says so in its result. Pressed again, it ends the
/// program.
void catch_interrupts(bool ends_on_second = true);
bool interrupted();

}  // namespace shardsim
