// The copy of a scenario: paths rewritten, and the digests of summary.json compared.
#include "app/scenario_copy.h"

#include <nlohmann/json.hpp>

#include "app/fingerprint.h"
#include "app/run_folder.h"
#include "app/scenario_platform.h"
#include "formats/summary.h"

namespace shardsim {
namespace {

namespace fs = std::filesystem;

YamlNode* find_key(YamlNode& node, const std::string& key) {
  if (node.key == key) return &node;
  for (YamlNode& child : node.children)
    if (YamlNode* found = find_key(child, key)) return found;
  return nullptr;
}

/// Without links on the way to it; a file that is a link keeps its name.
fs::path place_of(const fs::path& file) {
  const fs::path absolute = fs::absolute(file);
  return fs::weakly_canonical(absolute.parent_path()) / absolute.filename();
}

bool lies_below(const fs::path& place, const fs::path& folder) {
  const fs::path rest = place.lexically_relative(folder);
  return !rest.empty() && *rest.begin() != "..";
}

}  // namespace

std::string text_from(const Scenario& scenario, const fs::path& folder) {
  if (scenario.files.empty()) return scenario.text;
  YamlNode tree = parse_yaml(scenario.text, scenario.file.string());
  const fs::path here = fs::canonical(fs::current_path()), from = fs::weakly_canonical(fs::absolute(folder));
  for (const auto& [key, file] : scenario.files) {
    YamlNode* node = find_key(tree, key);
    std::error_code error;
    if (!node || (key == "platform" && fs::equivalent(shipped_platform(node->text), file, error))) continue;
    const fs::path place = place_of(file);
    const bool moves_along = lies_below(place, here) && lies_below(from, here);
    node->text = (moves_along ? place.lexically_relative(from) : place).string();
  }
  return yaml_text(tree);
}

std::vector<std::string> files_changed_since_run(const Scenario& scenario, const YamlNode& tree) {
  std::vector<std::string> changed;
  const fs::path summary = scenario.file.parent_path() / "summary.json";
  std::error_code error;
  if (scenario.files.empty() || scenario.file.filename() != "scenario.yaml" || !fs::is_regular_file(summary, error)) return changed;
  const auto json = nlohmann::json::parse(text_of_file(summary), nullptr, false);
  if (!json.is_object() || !json.contains("files") || !json["files"].is_object()) return changed;
  for (const auto& [key, content] : json["files"].items()) {
    const auto file = scenario.files.find(key);
    YamlNode copy = tree;
    const YamlNode* node = find_key(copy, key);
    if (file == scenario.files.end() || !node || node->origin == "--set") continue;
    if (content != formats::hash_text(fingerprint_of(file->second)))
      changed.push_back(key + ": " + file->second.string() + " is not what it was when the run beside this scenario was made.");
  }
  return changed;
}

}  // namespace shardsim
