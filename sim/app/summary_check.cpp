// The check of a summary.json: against one that is written here, of a run that did nothing.
#include "app/summary_check.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/error.h"
#include "formats/summary.h"

namespace shardsim {
namespace {

using Json = nlohmann::ordered_json;

class Check {
 public:
  explicit Check(const std::string& file) : file_(file) {}

  void summary(const Json& json) const {
    formats::Figures figures;  // with what every run has
    figures.parameters = 1;
    for (auto* seconds :
         {&figures.step_seconds, &figures.compute_seconds, &figures.exposed_comm_seconds, &figures.hidden_comm_seconds,
          &figures.bytes_sent, &figures.control_bytes, &figures.host_link_bytes, &figures.host_to_device_bytes})
      seconds->add(0, 0);
    for (auto* bytes : {&figures.resident_bytes, &figures.model_state_peak_bytes, &figures.peak_bytes, &figures.host_resident_bytes,
                        &figures.host_peak_bytes})
      bytes->add(0, 0);
    std::ostringstream example;
    formats::write_summary(example, {}, {figures});
    const Json expected = Json::parse(example.str());
    for (const auto& [key, value] : expected.items())
      if (key != "results" && key != "schema_version") same_kind(json, key, value, key);
    if (json.contains("measured_source") && !json["measured_source"].is_string()) refuse("measured_source", "is no text");
    if (json.contains("files") && !json["files"].is_object()) refuse("files", "is no map");
    if (json.contains("files"))
      for (const auto& [key, content] : json["files"].items())
        if (!content.is_string()) refuse("files." + key, "is no text");
    const Json& results = list_at(json, "results", "results");
    if (results.empty()) refuse("results", "is empty");
    std::set<std::string> schemes;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const std::string place = "results[" + std::to_string(i) + "]";
      result(results[i], expected["results"][0], place);
      if (!schemes.insert(results[i]["scheme"]).second) refuse(place + ".scheme", "has results already");
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& place, const std::string& what) const {
    throw ScenarioError(file_ + ": " + place + " " + what + "; run the scenario again to replace the file");
  }

  const Json& at(const Json& map, const std::string& key, const std::string& place) const {
    const auto found = map.find(key);
    if (found == map.end()) refuse(place, "is missing");
    return *found;
  }
  const Json& list_at(const Json& map, const std::string& key, const std::string& place) const {
    const Json& list = at(map, key, place);
    if (!list.is_array()) refuse(place, "is no list");
    return list;
  }

  void result(const Json& json, const Json& expected, const std::string& place) const {
    if (!json.is_object()) refuse(place, "is no map");
    for (const auto& [key, value] : expected.items()) same_kind(json, key, value, place + "." + key);
    const std::string scheme = json["scheme"];  // names a folder, too
    if (scheme.empty() || scheme.front() == '.' || scheme.find('/') != std::string::npos)
      refuse(place + ".scheme", "is no scheme's name");
    const std::pair<const char*, double> counts[] = {{"world", 1 << 20}, {"steps", 1e6}, {"units", 1e9}, {"parameters", 0x1p53}};
    for (const auto& [key, most] : counts) {
      if (json[key] != std::floor(json[key].get<double>()) || json[key] < 1)
        refuse(place + "." + key, "is no whole number of at least 1");
      if (json[key] > most) refuse(place + "." + key, "is more than a run can have");
    }
    if (!json.contains("measured")) return;
    for (const Json& each : list_at(json, "measured", place + ".measured"))
      if (!each.is_object() || !at(each, "figure", place + ".measured.figure").is_string() ||
          !is_figure(at(each, "here", place + ".measured.here")) || !is_figure(at(each, "measured", place + ".measured.measured")))
        refuse(place + ".measured", "has something that is no figure");
  }

  static bool is_figure(const Json& value) { return value.is_number() || value.is_null(); }

  /// The value of `key` as a run writes it, by the example or, where the example has nothing, by the key.
  void same_kind(const Json& map, const std::string& key, const Json& example, const std::string& place) const {
    const Json& value = at(map, key, place);
    if (key.ends_with("_composition")) return composition(value, place);
    if (key.ends_with("_parts")) return parts(value, place);
    if (key == "theta_hash" ? !value.is_string() && !value.is_null() : example.is_string() && !value.is_string())
      refuse(place, "is no text");
    if (key == "fits" ? !value.is_boolean() && !value.is_null() : example.is_boolean() && !value.is_boolean())
      refuse(place, "is neither true nor false");
    if (example.is_array()) {
      if (!value.is_array()) refuse(place, "is no list");
      for (const Json& each : value)
        if (!each.is_string()) refuse(place, "has something that is no text");
    }
    if (example.is_number() || (example.is_null() && key != "theta_hash" && key != "fits")) {
      if (!is_figure(value) || (example.is_number() && value.is_null())) refuse(place, "is no number");
      if (value.is_number() && value < 0 && key.find("loss") == std::string::npos && key != "over_single_gpu_seconds" &&
          !key.ends_with("peak_seconds"))  // a date; before the first step it is negative
        refuse(place, "is less than 0");
    }
  }

  void composition(const Json& value, const std::string& place) const {
    if (value.is_null()) return;
    if (!value.is_object()) refuse(place, "is no map");
    for (const auto& [band, bytes] : value.items())
      if (!bytes.is_number()) refuse(place + "." + band, "is no number");
  }

  void parts(const Json& value, const std::string& place) const {
    if (!value.is_array()) refuse(place, "is no list");
    for (const Json& part : value) {
      if (!part.is_object()) refuse(place, "has something that is no map");
      if (!at(part, "band", place + ".band").is_string() || !at(part, "cause", place + ".cause").is_string() ||
          !is_figure(at(part, "unit", place + ".unit")) || !at(part, "bytes", place + ".bytes").is_number())
        refuse(place, "has something that is no part of the memory");
    }
  }

  const std::string& file_;
};

}  // namespace

void check_summary(const Json& summary, const std::string& file) { Check(file).summary(summary); }

}  // namespace shardsim
