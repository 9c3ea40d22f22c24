// Explain a run: every op and collective of a scenario's step, with the formula of its price and the numbers in it.
#pragma once
#include <string>
#include <vector>

#include "core/registry.h"

namespace shardsim {

struct ExplainRunOptions {
  std::string scenario;
  std::vector<std::string> overrides;
  std::string scheme;  ///< empty: the scenario's first
  int rank = 0;        ///< whose prices
  std::string only;    ///< an op, a collective or a verb; empty: all
  int top = 20;        ///< lines, most expensive first; 0: all
};

/// Runs two steps without numerics and tells of the second. Throws ScenarioError: a bad scenario, a scheme that it does not list,
/// a rank that there is not, an unknown op.
std::string explain_run(const ExplainRunOptions&, const Registry&);

}  // namespace shardsim
