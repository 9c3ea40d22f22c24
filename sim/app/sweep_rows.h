// The rows of a sweep: a run's outcome as cells of a CSV file, and the best of them.
#pragma once
#include <string>
#include <vector>

#include "app/sweep_plan.h"
#include "formats/summary.h"

namespace shardsim {

/// A figure in the table; its name has the unit.
struct SweepFigure {
  enum class Best { neither, lowest, highest };
  const char* name;
  Best best;
  double (*of)(const formats::Figures&);  ///< NaN: there is none
};
const std::vector<SweepFigure>& sweep_figures();
/// Throws ScenarioError, naming those that can be ranked by.
std::size_t rankable_figure(const std::string& name);

/// "ok,,0.073,...": status, reason and figures. Ok or does_not_fit.
std::string outcome_of(const formats::Figures&);
/// Status refused (the scenario or the scheme is wrong) or failed (the run itself died), with its reason.
std::string outcome_without_figures(const std::string& status, const std::string& reason);

/// The whole file: the grid's keys, scheme, status, reason and figures; a row per run. `outcomes` are of the plan's runs.
std::string sweep_csv(const SweepPlan&, const std::vector<std::string>& outcomes);

struct Ranking {
  std::string best = "step_seconds";  ///< by which figure
  bool only_fitting = false;
  int top = 10;  ///< rows to show
};

/// Counts, the best rows, the Pareto front of the figure against memory, and why runs were refused.
std::string ranking_text(const SweepPlan&, const std::vector<std::string>& outcomes, const Ranking&);

}  // namespace shardsim
