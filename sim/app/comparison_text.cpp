// The comparison as text for a terminal, and as a page.
#include <cmath>
#include <nlohmann/json.hpp>

#include "app/columns.h"
#include "app/comparison.h"
#include "app/report.h"
#include "app/table.h"
#include "app/whole_file.h"
#include "core/error.h"

namespace shardsim {
namespace {

using Json = nlohmann::ordered_json;

std::string rows_text(const Json& scheme, const Json& runs) {
  std::string text = row_name(scheme["scheme"], 26);
  for (std::size_t i = 0; i < runs.size(); ++i) text += cell(runs[i]["letter"], 15) + (i > 0 ? cell("change", 11) : "");
  text += "\n";
  for (const Json& row : scheme["rows"]) {
    text += row_name("  " + row["figure"].get<std::string>(), 26);
    for (std::size_t i = 0; i < runs.size(); ++i)
      text += cell(row["values"][i], 15) +
              (i > 0 ? cell(share_text(row["changes"][i].is_number() ? row["changes"][i].get<double>() : NAN), 11) : "");
    while (text.back() == ' ') text.pop_back();
    text += "\n";
    for (std::size_t i = 1; i < runs.size(); ++i)
      if (const std::string why = row["why"][i]; !why.empty())
        text += wrapped("      " + runs[i]["letter"].get<std::string>() + ": " + why, 9);
  }
  return text;
}

}  // namespace

std::string comparison_text(const Json& comparison) {
  const Json &runs = comparison["runs"], &changed = comparison["changed"];
  std::string text;
  for (const Json& run : runs)
    text +=
        run["letter"].get<std::string>() + "  " + run["name"].get<std::string>() + ": " + run["scenario"].get<std::string>() + "\n";
  text += changed.empty() ? "\nThe scenarios say the same.\n" : "\nChanged in the scenario (from A):\n";
  for (const Json& each : changed) {
    std::string line = "  " + each["key"].get<std::string>() + ":";
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const Json& value = each["values"][i];
      if (i == 0 || value != each["values"][0])
        line += (i > 0 ? "; " : " ") + runs[i]["letter"].get<std::string>() + " " +
                (value.is_null() ? "says nothing" : value.get<std::string>());
    }
    text += wrapped(line, 6);
  }
  for (const Json& scheme : comparison["schemes"]) text += "\n" + rows_text(scheme, runs);
  if (comparison["schemes"].empty()) text += "\nNo scheme is in all of these runs.\n";
  std::string missing;
  for (const Json& name : comparison["missing"]) missing += (missing.empty() ? "" : ", ") + name.get<std::string>();
  if (!missing.empty()) text += "\nNot in all of the runs, so not compared: " + missing + "\n";
  return text;
}

void write_comparison_page(const std::filesystem::path& file, const Json& comparison, const std::vector<Json>& data) {
  Json timelines = Json::array();  // of each run by scheme; of its first rank
  for (const Json& run : data) {
    Json of_run = Json::object();
    for (const Json& scheme : run["schemes"]) {
      Json timeline = scheme["timeline"];
      timeline["ranks"] = timeline["ranks"].empty() ? Json::array() : Json::array({timeline["ranks"][0]});
      of_run[scheme["scheme"].get<std::string>()] = std::move(timeline);
    }
    timelines.push_back(std::move(of_run));
  }
  const std::string page = page_with({{"comparison", comparison}, {"timelines", timelines}});
  if (page.empty()) throw ScenarioError("--html: " + std::string(no_page));
  write_whole_file(file, page_file, page);
}

}  // namespace shardsim
