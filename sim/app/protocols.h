// Protocols: the shipped tables of measurements, and how each is to be predicted.
#pragma once
#include <filesystem>
#include <vector>

#include "app/validate.h"

namespace shardsim {

struct ShippedTable {
  std::filesystem::path table;
  std::vector<Protocol> protocols;
};

/// Reads a file of protocols, `tables: [{table: NAME.csv, protocols: [{name, set, set_of_group, calibrate_per, fit, max_mape}]}]`,
/// paths relative to it. Throws ScenarioError.
std::vector<ShippedTable> read_protocols(const std::filesystem::path& file);

/// Where the shipped tables lie.
std::filesystem::path tables_folder();

}  // namespace shardsim
