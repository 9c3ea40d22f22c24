// Trial: a scheme on a small standard scenario, cost only: what `explain` shows beside the closed forms.
#pragma once
#include "app/result.h"
#include "app/scenario.h"
#include "formats/summary.h"

namespace shardsim {

struct Trial {
  Scenario scenario;
  SchemeResult result;
  formats::Figures figures;
};

/// Eight ranks of the platform ideal-8, four equal layers of a unit each (nothing is padded), 2 + 2 + 12 bytes per parameter,
/// `accumulation` micro-batches. Schemes that replicate their shards do it twice.
Trial try_out(const SchemeChoice&, int accumulation);
/// What the trial is, in words.
std::string trial_words();

}  // namespace shardsim
