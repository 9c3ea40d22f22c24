// The check of a summary.json that is read back: what a run writes has these keys and these types, and nothing else is drawn from.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace shardsim {

/// Throws ScenarioError with one line that names `file`, the place and what is wrong there.
void check_summary(const nlohmann::ordered_json&, const std::string& file);

}  // namespace shardsim
