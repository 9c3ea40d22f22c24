// The subcommand `shardsim calibrate`, which writes the prices or the collectives that reproduce measured rows.
#pragma once
#include <functional>

#include "core/registry.h"

namespace CLI {
class App;
}

namespace shardsim {

/// Adds the subcommand. The function carries it out, once it has been parsed, and returns the exit code. Throws ScenarioError.
std::function<int(const Registry&)> add_calibrate_command(CLI::App&);

}  // namespace shardsim
