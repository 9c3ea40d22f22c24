// The subcommand `shardsim validate`: predicts the rows of a table of measurements, or of all shipped ones.
#pragma once
#include <functional>

#include "core/registry.h"

namespace CLI {
class App;
}

namespace shardsim {

/// Adds the subcommand. The function carries it out, once it has been parsed, and returns the exit code: 0, 1 for a mean error
/// above the limit, 130 when interrupted. Throws ScenarioError.
std::function<int(const Registry&)> add_validate_command(CLI::App&);

}  // namespace shardsim
