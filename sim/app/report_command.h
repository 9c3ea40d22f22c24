// The subcommand `shardsim report`: the page of a results folder, made again.
#pragma once
#include <functional>

namespace CLI {
class App;
}

namespace shardsim {

/// Adds `report` to the program; the function carries it out once the command line is parsed. Throws ScenarioError.
std::function<void()> add_report_command(CLI::App& app);

}  // namespace shardsim
