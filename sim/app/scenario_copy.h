// The copy of a scenario in a results folder: it works from there, and knows again what it names.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "app/scenario.h"

namespace shardsim {

/// Scenario::text with the files that it names as they are found from `folder`: relative to it if both lie below the folder that
/// one is in, so that all of it can be moved, else absolute. What the program finds anywhere, a shipped platform, keeps its name.
std::string text_from(const Scenario&, const std::filesystem::path& folder);

/// Of a scenario.yaml in a results folder: a sentence for each file that it names and that was another one when it was run. What
/// the command line names instead is meant. Nothing where no summary.json tells of files.
std::vector<std::string> files_changed_since_run(const Scenario&, const YamlNode&);

}  // namespace shardsim
