// A file that is written as a whole or not at all.
#pragma once
#include <filesystem>
#include <string>

namespace shardsim {

/// Writes beside the place and renames. Throws ScenarioError "path: cannot be written: why"; nothing half-written is left behind.
void write_whole_file(const std::filesystem::path&, const std::string& text);

}  // namespace shardsim
