// Plugins: libraries with one scheme each, loaded while the program runs.
#pragma once
#include <string>
#include <vector>

#include "core/registry.h"

namespace shardsim {

/// Loads each file and adds its scheme to the registry. Throws ScenarioError, naming the file, for what is no plugin, was built
/// against another interface, or has a scheme whose name is taken; IllegalStep for a scheme that cannot be constructed. Libraries
/// stay loaded.
void load_plugins(const std::vector<std::string>& files, Registry&);

}  // namespace shardsim
