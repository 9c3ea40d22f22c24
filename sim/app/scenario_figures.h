// What a scenario says about the figures of its schemes: what others measured of them, and what is expected to come out.
#pragma once
#include <string>
#include <vector>

#include "app/fields.h"
#include "app/scenario.h"

namespace shardsim {

/// Fills measured and expect, whose tolerances may refer to what was measured.
void read_figures(const Fields& root, Scenario&, const Registry&);

/// The keys that a measured figure or an expectation may have.
const std::vector<std::string>& figure_keys();

}  // namespace shardsim
