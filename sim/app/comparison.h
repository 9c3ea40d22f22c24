// Comparison: several runs side by side: what their scenarios have different, and why each figure moved.
#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace shardsim {

/// {runs: [{letter, name, results}], changed: [{key, values}], schemes: [{scheme, rows: [{figure, values, changes, why}]}],
/// missing}. A row's values are texts, one per run; changes are shares of the first run's value (null where there is none), and why
/// says for every later run what the difference is made of: seconds by kind and verb, bytes by collective, memory by band. Schemes
/// are matched by name; where every run has just one, they are matched as they are. Throws ScenarioError for a folder no run wrote.
nlohmann::ordered_json comparison(const std::vector<std::filesystem::path>& folders);
/// The same of folders that have been read (report_data), in their order.
nlohmann::ordered_json comparison(const std::vector<std::filesystem::path>& folders,
                                  const std::vector<nlohmann::ordered_json>& data);

/// [{key, values}]: the scenarios' keys that are not the same in all of these results folders; null where a run says nothing.
nlohmann::ordered_json changed_in_scenario(const std::vector<std::filesystem::path>& folders);

/// The comparison for a terminal.
std::string comparison_text(const nlohmann::ordered_json& comparison);

/// The comparison as one HTML page, with the timeline of each run's first rank, one above the other. Where it has a key `agreement`
/// (app/agreement.h), its first run is a prediction of its second, and each scheme begins with that. Throws ScenarioError in a
/// program that was built without npm, or where the file cannot be written.
void write_comparison_page(const std::filesystem::path& file, const nlohmann::ordered_json& comparison,
                           const std::vector<nlohmann::ordered_json>& data);

}  // namespace shardsim
