// The subcommand `shardsim figures`: course figures, drawn by the scripts of tools/figures.
#pragma once
#include <functional>

namespace CLI {
class App;
}

namespace shardsim {

/// Adds `figures` to the program; the function becomes the script that draws, and returns only by ScenarioError.
std::function<void()> add_figures_command(CLI::App& app);

}  // namespace shardsim
