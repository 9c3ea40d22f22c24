// Remedy: what would make a run fit into its GPUs, estimated from what was held at the peak.
#pragma once
#include <string>
#include <vector>

#include "app/result.h"
#include "app/scenario.h"
#include "formats/summary.h"

namespace shardsim {

/// One knob, turned. Everything else stays, so the estimates do not add up.
struct Remedy {
  std::string knob;  ///< as it is written in a scenario
  double bytes = 0;  ///< needed with it, reserved and outside
  double cost = 0;   ///< the share by which it adds to the traffic, the compute or the step; 0: nothing but overlap or care
  std::string at;    ///< the cost in words
};

/// Those that apply and save a hundredth at least, the cheapest first.
std::vector<Remedy> remedies(const Scenario&, const SchemeResult&, const formats::Figures&);

/// Why a run does not fit: what is needed, what it consists of, and the cheapest remedy that would do.
std::string misfit_text(const Scenario&, const SchemeResult&, const formats::Figures&);

}  // namespace shardsim
