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
/// IllegalStep (named: scheme, rank, step, verb, unit), ScenarioError (a platform that SimGrid refuses), cuda::GpuError (a GPU or a
/// node failed) and, with several nodes, cuda::Interrupted. The training set is that of the scenario; several schemes share one.
SchemeResult run_scheme(const Scenario&, const TrainingSet&, const SchemeChoice&, const Progress& = {});

/// What is carried out: one scheme of a scenario.
struct Work {
  const Scenario& scenario;
  const TrainingSet& set;
  const SchemeChoice& choice;
  Progress progress = {};
};

/// By whom, where that is not one process in which each rank has a scheme and a model of its own.
struct Cast {
  std::function<int(int)> representative = {};  ///< of folded ranks, the one that was simulated for each
  Crew crew = {};                               ///< the ranks that are this process's own, where others have the rest
  Score* score = nullptr;                       ///< what all ranks play
};

/// Runs one scheme on a backend, in this process.
SchemeResult run_on(Backend&, const Work&, const Cast& = {});
/// "0-5, 7".
std::string in_ranges(const std::vector<int>& ranks);

/// True once Ctrl-C was pressed, or SIGTERM or SIGHUP came; run_scheme then ends after the step at hand and says so in its result.
/// Pressed again, it ends the program.
void catch_interrupts(bool ends_on_second = true);
bool interrupted();

}  // namespace shardsim
