// Comparison: scenarios key by key, figures part by part.
#include "app/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/report.h"
#include "app/run_folder.h"
#include "app/table.h"
#include "app/yaml_reader.h"
#include "core/error.h"

namespace shardsim {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// What a figure is made of, in the order in which it is told.
using Parts = std::vector<std::pair<std::string, double>>;
using Text = std::string (*)(double);

std::string count_text(double value) { return std::to_string(std::llround(value)); }

double number(const Json& figures, const std::string& key) {
  const auto found = figures.find(key);
  return found != figures.end() && found->is_number() ? found->get<double>() : NAN;
}

void add(Parts& parts, const std::string& name, double value) {
  const auto found = std::find_if(parts.begin(), parts.end(), [&](const auto& part) { return part.first == name; });
  if (found == parts.end()) parts.push_back({name, value});
  else found->second += value;
}

Parts of_step(const Json& figures, const Json&) {
  const double compute = number(figures, "compute_seconds"), exposed = number(figures, "exposed_comm_seconds");
  return {{"compute", compute}, {"exposed communication", exposed}, {"idle", number(figures, "step_seconds") - compute - exposed}};
}

/// By verb, of the first rank that the page shows, in its last step.
Parts of_compute(const Json&, const Json& scheme) {
  Parts parts;
  const Json& timeline = scheme["timeline"];
  if (timeline["ranks"].empty() || !timeline["ranks"][0]["streams"].contains("compute")) return parts;
  for (const Json& slice : timeline["ranks"][0]["streams"]["compute"])
    if (const std::size_t kind = slice[2]; timeline["payloads"][kind] == "compute")
      add(parts, timeline["names"][kind].get<std::string>() + " in the last step", slice[1].get<double>() / 1e9);
  return parts;
}

/// Time in collectives, less what of it runs at once on two streams, less what is hidden.
Parts of_communication(const Json& figures, const Json& scheme) {
  Parts parts;
  for (const Json& row : scheme["collectives"]["rows"]) add(parts, "time in " + row["verb"].get<std::string>(), row["seconds"]);
  double sum = 0;
  for (const auto& [name, seconds] : parts) sum += seconds;
  const double hidden = number(figures, "hidden_comm_seconds");
  parts.push_back({"not beside another collective", number(figures, "exposed_comm_seconds") + hidden - sum});
  parts.push_back({"not hidden behind compute", -hidden});
  return parts;
}

Parts of_traffic(const Json&, const Json& scheme) {
  Parts parts;
  for (const Json& row : scheme["collectives"]["rows"])
    if (row["payload"] == "data") add(parts, row["verb"], row["sent_bytes"]);
  return parts;
}

Parts of_bands(const Json& composition) {
  Parts parts;
  for (const auto& [band, bytes] : composition.items()) parts.push_back({band, bytes.get<double>()});
  return parts;
}
Parts of_resident(const Json& figures, const Json&) { return of_bands(figures["resident_composition"]); }
Parts of_model_state(const Json& figures, const Json&) { return of_bands(figures["model_state_peak_composition"]); }
Parts of_peak(const Json& figures, const Json&) { return of_bands(figures["peak_composition"]); }

struct Row {
  const char *figure, *key;
  Text text;
  Parts (*parts)(const Json& figures, const Json& scheme);
  bool only_if_differs = false;
};
constexpr Row rows[] = {
    {"ranks", "world", count_text, nullptr, true},
    {"parameters", "parameters", count_text, nullptr, true},
    {"units", "units", count_text, nullptr, true},
    {"step", "step_seconds", time_text, of_step},
    {"compute", "compute_seconds", time_text, of_compute},
    {"exposed communication", "exposed_comm_seconds", time_text, of_communication},
    {"hidden communication", "hidden_comm_seconds", time_text, nullptr},
    {"tokens per second", "tokens_per_second", count_text, nullptr},
    {"sent per rank and step", "bytes_sent_per_rank_per_step", bytes_text, of_traffic},
    {"traffic, P(N-1)/N", "traffic_units", decimal_text, nullptr},
    {"resident", "resident_bytes", bytes_text, of_resident},
    {"model-state peak", "model_state_peak_bytes", bytes_text, of_model_state},
    {"total peak", "peak_bytes", bytes_text, of_peak},
    {"reserved", "reserved_bytes", bytes_text, nullptr},
    {"last loss", "loss_last", decimal_text, nullptr},
};

/// "+3.9 ms".
std::string signed_text(double value, Text text) { return (value < 0 ? "-" : "+") + text(std::abs(value)); }

/// "exposed communication +3.9 ms, compute +0.1 ms": the parts that make up the difference, the largest first.
std::string difference(const Parts& from, const Parts& to, Text text) {
  Parts changes = to;
  for (const auto& [name, value] : from) add(changes, name, -value);
  std::stable_sort(changes.begin(), changes.end(),
                   [](const auto& a, const auto& b) { return std::abs(a.second) > std::abs(b.second); });
  std::string words;
  for (const auto& [name, change] : changes)
    if (std::abs(change) > 0.01 * std::abs(changes.front().second) && change != 0)
      words += (words.empty() ? "" : ", ") + name + " " + signed_text(change, text);
  return words;
}

/// The keys of a scenario, dotted, with what stands there; lists as a whole.
void flatten(const YamlNode& node, std::map<std::string, std::string>& keys) {
  if (node.kind != YamlNode::Kind::map) {
    YamlNode alone = node;
    alone.key = "value";  // not the root: in flow style
    std::string text = yaml_text(alone);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    keys[node.key] = text;
    return;
  }
  for (const YamlNode& child : node.children)
    if (child.key != "expect" && child.key != "name") flatten(child, keys);
}

std::map<std::string, std::string> keys_of(const fs::path& folder, const Json& summary) {
  std::map<std::string, std::string> keys;
  for (const Json& used : summary["defaults_used"]) {
    const std::string text = used;
    if (const std::size_t colon = text.find(": "); colon != std::string::npos)
      keys[text.substr(0, colon)] = text.substr(colon + 2) + " (default)";
  }
  flatten(read_yaml(folder / "scenario.yaml"), keys);
  return keys;
}

Json changed_keys(const std::vector<std::map<std::string, std::string>>& scenarios) {
  std::map<std::string, bool> all;
  for (const auto& keys : scenarios)
    for (const auto& [key, value] : keys) all[key] = true;
  Json changed = Json::array();
  for (const auto& [key, there] : all) {
    Json values = Json::array();
    for (const auto& keys : scenarios) values.push_back(keys.count(key) ? Json(keys.at(key)) : Json(nullptr));
    if (std::any_of(values.begin(), values.end(), [&](const Json& value) { return value != values[0]; }))
      changed.push_back({{"key", key}, {"values", values}});
  }
  return changed;
}

/// A path leads from each folder to its file: where digests are the same the files are, and where they are not, names tell.
void compare_files(const std::vector<std::map<std::string, std::string>>& contents,
                   std::vector<std::map<std::string, std::string>>& scenarios) {
  const auto are_equal = [](const std::vector<std::string>& all) {
    return std::all_of(all.begin(), all.end(), [&](const std::string& each) { return each == all[0]; });
  };
  for (const auto& [key, first] : contents.front()) {
    std::vector<std::string> digests, names;
    for (std::size_t i = 0; i < contents.size(); ++i)
      if (contents[i].count(key) && scenarios[i].count(key)) {
        const std::string& path = scenarios[i][key];
        digests.push_back(contents[i].at(key)), names.push_back(path.substr(path.rfind('/') + 1));
      }
    if (digests.size() == contents.size() && (are_equal(digests) || are_equal(names)))
      for (auto& keys : scenarios) keys.erase(key);
  }
}

struct Run {
  const Json& data;
  /// The position of the scheme; nothing if the run has none of that name.
  std::optional<std::size_t> find(const std::string& scheme) const {
    for (std::size_t i = 0; i < data["schemes"].size(); ++i)
      if (data["schemes"][i]["scheme"] == scheme) return i;
    return {};
  }
  const Json& figures(std::size_t i) const { return data["summary"]["results"][i]; }
  const Json& scheme(std::size_t i) const { return data["schemes"][i]; }
};

Json figure_rows(const std::vector<const Run*>& runs, const std::vector<std::size_t>& at) {
  Json list = Json::array();
  for (const Row& row : rows) {
    Json values = Json::array(), changes = Json::array(), why = Json::array();
    const double first = number(runs[0]->figures(at[0]), row.key);
    bool is_known = false;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const Json& figures = runs[i]->figures(at[i]);
      const double value = number(figures, row.key);
      is_known |= !std::isnan(value);
      values.push_back(std::isnan(value) ? "-" : row.text(value));
      const bool comparable = !std::isnan(value) && !std::isnan(first);
      changes.push_back(!comparable ? Json(nullptr)
                                    : Json(value == first ? 0
                                           : first != 0   ? (value - first) / std::abs(first)
                                                          : NAN));
      const bool moved = comparable && std::abs(value - first) > 5e-4 * std::abs(first);
      why.push_back(moved && row.parts ? difference(row.parts(runs[0]->figures(at[0]), runs[0]->scheme(at[0])),
                                                    row.parts(figures, runs[i]->scheme(at[i])), row.text)
                                       : "");
    }
    const bool differs = std::any_of(values.begin(), values.end(), [&](const Json& value) { return value != values[0]; });
    if (is_known && (differs || !row.only_if_differs))
      list.push_back({{"figure", row.figure}, {"values", values}, {"changes", changes}, {"why", why}});
  }
  Json values = Json::array(), changes = Json::array(), why = Json::array();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Json& theta = runs[i]->figures(at[i])["theta_hash"];
    values.push_back(theta.is_string() ? theta.get<std::string>().substr(0, 8) : "-");
    changes.push_back(nullptr);
    why.push_back(values[i] == "-" || i == 0 ? ""
                  : values[i] == values[0]   ? "the same bits"
                                             : "other bits: what changed above changes the arithmetic");
  }
  list.push_back({{"figure", "theta"}, {"values", values}, {"changes", changes}, {"why", why}});
  return list;
}

}  // namespace

Json changed_in_scenario(const std::vector<fs::path>& folders) {
  std::vector<std::map<std::string, std::string>> scenarios, contents;  // by key; of keys that name a file what is in it
  bool know_contents = true;                                            // runs of earlier versions do not
  for (const fs::path& folder : folders) {
    const Json summary = read_summary(folder);
    scenarios.push_back(keys_of(folder, summary));
    know_contents = know_contents && summary.contains("files");
    contents.push_back(summary.value("files", std::map<std::string, std::string>()));
  }
  if (know_contents) compare_files(contents, scenarios);
  Json changed = changed_keys(scenarios);
  const auto names_another = [&changed](const std::string& key) {
    return std::any_of(changed.begin(), changed.end(), [&](const Json& each) { return each["key"] == key; });
  };
  Json in_files = changed_keys(contents);
  for (const Json& each : in_files)
    if (know_contents && !names_another(each["key"]))
      changed.push_back({{"key", each["key"].get<std::string>() + ", what is in the file"}, {"values", each["values"]}});
  return changed;
}

Json comparison(const std::vector<fs::path>& folders) {
  std::vector<Json> data;
  data.reserve(folders.size());
  for (const fs::path& folder : folders) data.push_back(report_data(folder));
  return comparison(folders, data);
}

Json comparison(const std::vector<fs::path>& folders, const std::vector<Json>& data) {
  std::vector<Run> runs;
  Json result = {{"runs", Json::array()}};
  for (std::size_t i = 0; i < folders.size(); ++i) {
    runs.push_back({data[i]});
    const Json& summary = data[i]["summary"];
    result["runs"].push_back({{"letter", std::string(1, char('A' + i))},
                              {"name", folders[i].string()},
                              {"scenario", summary["scenario"]},
                              {"results", summary["results"]}});
  }
  result["changed"] = changed_in_scenario(folders);
  result["schemes"] = Json::array(), result["missing"] = Json::array();
  std::vector<const Run*> all;
  for (const Run& run : runs) all.push_back(&run);
  const bool single = std::all_of(runs.begin(), runs.end(), [](const Run& run) { return run.data["schemes"].size() == 1; });
  if (single) {
    std::vector<std::string> names;
    for (const Run& run : runs)
      if (const std::string name = run.scheme(0)["scheme"]; std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(name);
    std::string title;
    for (const std::string& name : names) title += (title.empty() ? "" : " and ") + name;
    result["schemes"].push_back({{"scheme", title}, {"rows", figure_rows(all, std::vector<std::size_t>(runs.size(), 0))}});
    return result;
  }
  std::vector<std::string> names;
  for (const Run& run : runs)
    for (const Json& scheme : run.data["schemes"])
      if (const std::string name = scheme["scheme"]; std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(name);
  for (const std::string& name : names) {
    std::vector<std::size_t> at;
    for (const Run& run : runs)
      if (const std::optional<std::size_t> found = run.find(name)) at.push_back(*found);
    if (at.size() == runs.size()) result["schemes"].push_back({{"scheme", name}, {"rows", figure_rows(all, at)}});
    else result["missing"].push_back(name);
  }
  return result;
}

}  // namespace shardsim
