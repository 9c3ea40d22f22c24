// The parts of a scenario that have keys of their own: batch, units, budgets.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "app/fields.h"
#include "app/scenario.h"

namespace shardsim {

/// Fills precision, units, streams, budgets, accumulation, clip and Adam. `micro_batch` is set too: it stands in `batch`.
void read_knobs(const Fields& root, Scenario&, std::vector<std::string>& defaults);

/// Where a file lies that a scenario names: relative to the scenario file.
std::filesystem::path beside_scenario(const Scenario&, const std::string& path);
/// The same of a key's value; what is in the file is part of the scenario from then on (Scenario::files).
std::filesystem::path named_file(Scenario&, const YamlNode&);

/// Where the shipped platforms lie, whether or not there are any.
std::filesystem::path platforms_folder();

/// The names of the shipped platforms, sorted.
std::vector<std::string> shipped_platforms();

}  // namespace shardsim
