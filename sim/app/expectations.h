// Expectations: what a scenario's `expect:` block promised, compared with what came out.
#pragma once
#include <string>
#include <vector>

#include "app/scenario.h"
#include "formats/summary.h"

namespace shardsim {

/// The figure of that name, one of figure_keys().
double figure_of(const formats::Figures&, const std::string& key);

/// One line per miss, "file:line: scheme.key: expected ..., found ..."; empty if all is as expected. Schemes that were not run are
/// passed over.
std::vector<std::string> missed_expectations(const Scenario&, const std::vector<formats::Figures>&);

}  // namespace shardsim
