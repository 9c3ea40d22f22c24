// Validation text: fixed columns, the same bytes for the same validation.
#include "app/validation_text.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/run_folder.h"
#include "app/table.h"

namespace shardsim {
namespace {

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[512];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

std::string flags_of(const Prediction& prediction) {
  return std::string(prediction.is_host_bound() ? "H" : " ") + (prediction.is_near_memory_limit() ? "M" : " ");
}

/// "layers=24 hidden=2048": keys without the maps they stand in.
std::string settings_of(const MeasuredRow& row) {
  std::string text;
  for (const std::string& each : row.overrides) {
    const std::size_t equals = each.find('='), dot = each.rfind('.', equals);
    text += (text.empty() ? "" : " ") + each.substr(dot == std::string::npos ? 0 : dot + 1);
  }
  return text.size() > 90 ? text.substr(0, 87) + "..." : text;
}

/// How far the real step may lie from the predicted one: what others' public tables came to, predicted by the same formulas. They
/// err on the fast side, so the upper side is wider.
std::string band_text(const Validation& validation) {
  if (validation.measurand != Measurand::step) return {};
  bool shards_parameters = true;
  int host_bound = 0, near_limit = 0;
  for (const Validation::Row& row : validation.rows) {
    shards_parameters = shards_parameters && row.prediction.shards_parameters;
    host_bound += row.prediction.is_host_bound(), near_limit += row.prediction.is_near_memory_limit();
  }
  const char* band = shards_parameters          ? (validation.is_calibrated ? "-5 to +5 %" : "-8 to +20 %")
                     : validation.is_calibrated ? "-12 to +12 %"
                                                : "-8 to +20 % on one node, -5 to +45 % on several";
  std::string text = std::string("\nThe real step of another scenario like these: ") + band + " of the predicted one";
  text += validation.is_calibrated ? ", calibrated.\n" : ", not calibrated.\n";
  if (host_bound > 0)
    text +=
        format("H: %d rows in which the GPU waits for its host in more than 5 %% of the step; expect more scatter.\n", host_bound);
  if (near_limit > 0)
    text += format("M: %d rows whose model states take more than 60 %% of the memory; expect them slower.\n", near_limit);
  return text;
}

nlohmann::ordered_json json_of(const ErrorSummary& s) {
  return {{"n", s.n},
          {"bias", s.bias},
          {"mape", s.mape},
          {"median", s.median},
          {"p90", s.p90},
          {"worst", s.worst},
          {"within_3_percent", s.within_3},
          {"within_5_percent", s.within_5},
          {"within_10_percent", s.within_10}};
}

}  // namespace

std::string rows_text(const Validation& validation) {
  std::string text = " row     measured    predicted    error\n";
  for (const Validation::Row& row : validation.rows)
    text += format("%4d %12s %12s %+7.1f %% %s  %s\n", row.row->number, time_text(row.row->seconds).c_str(),
                   time_text(row.prediction.seconds).c_str(), 100 * row.error, flags_of(row.prediction).c_str(),
                   settings_of(*row.row).c_str());
  return text;
}

std::string summary_head() {
  return format("%-40s %4s %7s %7s %7s %7s  %5s %5s %5s", "", "n", "bias", "MAPE", "median", "p90", "<3%", "<5%", "<10%");
}

std::string summary_line(const std::string& name, const ErrorSummary& s) {
  return format("%-40s %4d %+6.1f%% %6.1f%% %6.1f%% %6.1f%%  %4.0f%% %4.0f%% %4.0f%%", name.substr(0, 40).c_str(), s.n,
                100 * s.bias, 100 * s.mape, 100 * s.median, 100 * s.p90, 100 * s.within_3, 100 * s.within_5, 100 * s.within_10);
}

std::string summary_text(const Validation& validation) {
  std::string text = summary_head() + "\n";
  for (const Validation::Group& group : validation.groups) {
    if (!group.name.empty() || !group.constants.empty())
      text += summary_line(group.name, group.errors) + (group.constants.empty() ? "" : "  " + group.constants) + "\n";
  }
  text += summary_line("all", validation.overall) + "\n";
  if (validation.unflagged.n < validation.overall.n) text += summary_line("without H and M", validation.unflagged) + "\n";
  return text + band_text(validation);
}

std::string json_text(const std::vector<std::pair<std::string, Validation>>& validations) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const auto& [name, validation] : validations) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array(), groups = nlohmann::ordered_json::array();
    for (const Validation::Row& row : validation.rows)
      rows.push_back({{"row", row.row->number},
                      {"group", row.row->group},
                      {"measured_seconds", row.row->seconds},
                      {"predicted_seconds", row.prediction.seconds},
                      {"error", row.error},
                      {"host_bound", row.prediction.is_host_bound()},
                      {"near_memory_limit", row.prediction.is_near_memory_limit()}});
    for (const Validation::Group& group : validation.groups)
      groups.push_back({{"name", group.name}, {"errors", json_of(group.errors)}, {"constants", group.constants}});
    all.push_back({{"name", name},
                   {"calibrated", validation.is_calibrated},
                   {"errors", json_of(validation.overall)},
                   {"errors_without_flagged", json_of(validation.unflagged)},
                   {"groups", groups},
                   {"rows", rows}});
  }
  return json_lines(all);
}

}  // namespace shardsim
