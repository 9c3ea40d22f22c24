// The subcommand `shardsim platform`, which writes the platform file of a machine that need not exist.
#pragma once
#include <functional>

namespace CLI {
class App;
}

namespace shardsim {

/// Adds the subcommand. The function carries it out, once it has been parsed: writes the file of -o, or prints the XML. Throws
/// ScenarioError.
std::function<void()> add_platform_command(CLI::App&);

}  // namespace shardsim
