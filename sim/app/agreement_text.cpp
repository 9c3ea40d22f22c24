// The agreement as text for a terminal, and what speaks against it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/agreement.h"
#include "app/columns.h"
#include "app/table.h"

namespace shardsim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t name_columns = 44, value_columns = 15;

std::string value_text(const Json& value, const std::string& unit) {
  if (!value.is_number()) return "-";
  const double number = value;
  char text[32];
  if (unit == "seconds") return time_text(number);
  if (unit == "bytes") return bytes_text(number);
  if (unit == "count") return decimal_text(number);
  std::snprintf(text, sizeof text, unit == "share" ? "%.2g" : "%.6g", number);
  return text;
}

const Json& step_of(const Json& scheme) {
  return *std::find_if(scheme["rows"].begin(), scheme["rows"].end(), [](const Json& row) { return row["figure"] == "step"; });
}

/// " (2 to 8)": which steps the times are of; empty where that is all of a run's.
std::string steady_words(const Json& scheme) {
  const auto range = [&scheme](const char* side) {
    const Json& steps = scheme["steady_steps"][side];
    return steps[0] == steps[1] ? steps[0].dump() : steps[0].dump() + " to " + steps[1].dump();
  };
  const std::string predicted = range("predicted"), measured = range("measured");
  if (predicted == measured) return predicted == "1" ? "" : " (" + predicted + ")";
  return " (" + predicted + ", measured " + measured + ")";
}

}  // namespace

std::string agreement_text(const Json& agreement) {
  std::string text =
      "predicted: " + agreement["predicted"].get<std::string>() + "\nmeasured:  " + agreement["measured"].get<std::string>() + "\n";
  if (!agreement["changed"].empty()) text += "\nThe scenarios differ:\n";
  for (const Json& each : agreement["changed"]) {
    const auto said = [](const Json& value) { return value.is_null() ? "nothing" : value.get<std::string>(); };
    text += wrapped("  " + each["key"].get<std::string>() + ": predicted with " + said(each["values"][0]) + ", measured with " +
                        said(each["values"][1]),
                    6);
  }
  for (const Json& scheme : agreement["schemes"]) {
    text += "\n" + row_name(scheme["scheme"], name_columns) + cell("predicted", value_columns) + cell("measured", value_columns) +
            cell("error", value_columns) + "\n";
    text +=
        row_name("", name_columns) + cell(scheme["backends"][0], value_columns) + cell(scheme["backends"][1], value_columns) + "\n";
    std::string part;
    for (const Json& row : scheme["rows"]) {
      if (row["part"] != part) {
        part = row["part"];
        const bool is_of_steady = part == "time per step" || part == "time in collectives per step";
        text += " " + part + (is_of_steady ? steady_words(scheme) : "") + "\n";
      }
      const std::string unit = row["unit"];
      text += row_name("   " + row["figure"].get<std::string>(), name_columns) +
              cell(value_text(row["predicted"], unit), value_columns);
      // A difference has no measured side.
      if (unit != "share")
        text += cell(value_text(row["measured"], unit), value_columns) +
                cell(share_text(row["error"].is_number() ? row["error"].get<double>() : NAN), value_columns);
      while (text.back() == ' ') text.pop_back();
      text += "\n";
    }
  }
  return text + "\n" + verdict_text(agreement);
}

std::string verdict_text(const Json& agreement) {
  std::string text;
  const char* comma = "The scenarios differ in ";
  for (const Json& each : agreement["changed"]) text += comma + each["key"].get<std::string>(), comma = ", ";
  if (!text.empty()) text += ".\n";
  for (const Json& scheme : agreement["schemes"]) {
    const auto compared = std::count_if(scheme["rows"].begin(), scheme["rows"].end(), [](const Json& row) {
      return row["predicted"].is_number() && (row["measured"].is_number() || row["unit"] == "share");
    });
    const Json &backends = scheme["backends"], &error = step_of(scheme)["error"];
    std::string line = scheme["scheme"].get<std::string>() + ": " + std::to_string(compared) + " figures compared, " +
                       backends[0].get<std::string>() + " with " + backends[1].get<std::string>() +
                       (backends[1] == "simgrid" ? ", so nothing was measured" : "") + "; " +
                       (steady_words(scheme).empty() ? "" : "steady ") + "step" + steady_words(scheme) + " " +
                       (error.is_number() ? share_text(error.get<double>()) : "unknown") + "; sent bytes and collectives " +
                       (scheme["contradictions"].empty() ? "as predicted" : "differ");
    const char* separator = ". Not compared: ";
    for (const Json& each : scheme["uncompared"]) line += separator + each.get<std::string>(), separator = ", ";
    text += line + ".\n";
  }
  for (const Json& name : agreement["missing"]) text += name.get<std::string>() + ": predicted, but not measured.\n";
  for (const Json& name : agreement["unpredicted"]) text += name.get<std::string>() + ": measured, but not predicted.\n";
  return text;
}

std::string disagreements(const Json& agreement, std::optional<double> max_error) {
  std::string text;
  for (const Json& scheme : agreement["schemes"]) {
    const std::string name = scheme["scheme"];
    for (const Json& line : scheme["contradictions"]) text += name + ": " + line.get<std::string>() + "\n";
    const Json& error = step_of(scheme)["error"];
    if (!max_error || (error.is_number() && std::abs(error.get<double>()) <= *max_error)) continue;
    if (!error.is_number()) {
      text += name + ": the step's error is not known: the measured step takes no time\n";
      continue;
    }
    char words[160];
    std::snprintf(words, sizeof words, ": the step's error is %.1f %%, more than the %.1f %% allowed\n", 100 * error.get<double>(),
                  100 * *max_error);
    text += name + words;
  }
  return text;
}

}  // namespace shardsim
