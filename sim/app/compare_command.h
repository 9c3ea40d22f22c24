// The subcommand `shardsim compare`: runs side by side, and why their figures differ.
#pragma once
#include <functional>

namespace CLI {
class App;
}

namespace shardsim {

/// Adds `compare` to the program; the function carries it out once the command line is parsed. Throws ScenarioError.
std::function<void()> add_compare_command(CLI::App& app);

}  // namespace shardsim
