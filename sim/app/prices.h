// Prices: the scenario's key `prices`, what a scenario says about its GPUs and their software.
#pragma once
#include <string>

#include "app/fields.h"
#include "app/scenario.h"

namespace shardsim {

/// Reads `prices: {gpu: h100-sxm, stack: compiled, attention: fa2, gemm_efficiency: 0.65, ...}`: names and any fact of
/// cost/facts.h. `from: FILE` takes the same keys from a file as `shardsim calibrate` writes it, `calibrated: {...}` from here;
/// what stands beside them wins. Throws ScenarioError: unknown key, wrong unit, missing file.
cost::Prices read_prices(const YamlNode&, Scenario&);

/// The note under a table: the facts that the platform did not say, by origin; empty if there are none.
std::string prices_note(const Gpu&);

}  // namespace shardsim
