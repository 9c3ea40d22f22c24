// Agreement: a simulated run beside a measured one of the same scenario, figure by figure, with the error of each.
#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace shardsim {

/// {predicted, measured, changed: [{key, values}], schemes: [{scheme, steady_steps: {predicted: [2, 8], measured}, rows: [{part,
/// figure, unit, predicted, measured, error}], contradictions: [text], uncompared: [text]}], missing: [name]}. Both folders are
/// results that a run wrote, on whatever backend. Units: seconds, bytes, count, loss. A figure that one side lacks is null; error =
/// predicted / measured - 1, null where it says nothing. Times per step are those of the steady steps, all but a run's first. Times
/// by verb and by collective are of the first rank that both recorded. A contradiction is a figure that no machine may change:
/// bytes sent, and collectives. What is `uncompared` only one side has, and it says which. Throws ScenarioError for folders that no
/// run wrote, that have no scheme in common, or whose worlds or models differ.
nlohmann::ordered_json agreement(const std::filesystem::path& predicted, const std::filesystem::path& measured);

/// The agreement for a terminal; it ends with the verdict.
std::string agreement_text(const nlohmann::ordered_json& agreement);

/// A line per scheme: how many figures were compared, on what, the step's error, and what could not be compared.
std::string verdict_text(const nlohmann::ordered_json& agreement);

/// What speaks against the prediction, a line each: contradictions, and a step time off by more than `max_error`.
std::string disagreements(const nlohmann::ordered_json& agreement, std::optional<double> max_error);

}  // namespace shardsim
