// Score: when a run has one.
#include "app/score.h"

namespace shardsim {

Original original_of(const Scenario& scenario, const TrainingSet& set, const SchemeChoice& choice) {
  return {[&set](Device& device, int rank) { return set.model(device, rank); },
          [&choice] { return choice.make(); },
          scenario.knobs,
          set.theta0(),
          choice.label,
          scenario.world};
}

std::unique_ptr<Score> score_of(const Scenario& scenario, const TrainingSet& set, const SchemeChoice& choice) {
  if (scenario.numerics != Numerics::off || scenario.checks_hazards || scenario.memory.torch || scenario.noted_rank) return nullptr;
  auto score = std::make_unique<Score>(original_of(scenario, set, choice));
  return score->is_even() ? std::move(score) : nullptr;
}

}  // namespace shardsim
