// The subcommand `shardsim sweep`.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/registry.h"

namespace CLI {
class App;
}

namespace shardsim {

/// Adds the subcommand; the function that it returns carries it out and returns the exit code. It wants to know which plugins the
/// registry has schemes of. Throws ScenarioError.
std::function<int(const Registry&, const std::vector<std::string>& plugins)> add_sweep_command(CLI::App&);

}  // namespace shardsim
