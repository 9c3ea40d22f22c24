// Score: when a run has one.
#include "app/score.h"

namespace shardsim {

std::unique_ptr<Score> score_of(const Scenario& scenario, const TrainingSet& set, const SchemeChoice& choice) {
  if (scenario.numerics != Numerics::off || scenario.checks_hazards || scenario.memory.torch || scenario.notes_prices)
    return nullptr;
  auto score = std::make_unique<Score>(Score::Original{[&set](Device& device) { return set.model(device, 0); },
                                                       [&choice] { return choice.make(); }, scenario.knobs, set.theta0(),
                                                       choice.label, scenario.world});
  return score->is_even() ? std::move(score) : nullptr;
}

}  // namespace shardsim
