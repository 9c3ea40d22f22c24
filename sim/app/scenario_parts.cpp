// Reading the parts of a scenario that have keys of their own.
#include "app/scenario_parts.h"

#include <algorithm>
#include <limits>

#include "app/scenario_training.h"

namespace shardsim {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t most = std::numeric_limits<int>::max() - 1;

int budget_of(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::scalar && node.text == "unlimited") return unlimited;
  if (node.kind == YamlNode::Kind::scalar && !node.quoted && !number_in(node.text))
    refuse(node, "unknown value " + quoted(node.text) + "; write a whole number from 0 on, or unlimited");
  return int(integer_of(node, 0, most));
}

Cut cut_of(const YamlNode& node, std::vector<std::string>& defaults) {
  if (node.kind != YamlNode::Kind::map) {
    if (node.kind == YamlNode::Kind::scalar && node.text != "whole" && node.text != "layer")
      refuse(node, "unknown value " + quoted(node.text) + "; known values: whole, layer, {bucket: 25MB}");
    return {choice_of(node, {"whole", "layer"}) == 0 ? Cut::Kind::whole : Cut::Kind::layer, 0};
  }
  const YamlNode& size = Fields(node, {"bucket"}, defaults).need("bucket", "units: {bucket: 25MB}");
  const double bytes = bytes_of(size);
  if (bytes < 1 || bytes > double(std::int64_t{1} << 60))
    refuse(size, quoted(size.text) + " is out of range; write a bucket from 1B to 1024PiB");
  return {Cut::Kind::bucket, std::int64_t(bytes)};
}

}  // namespace

fs::path beside_scenario(const Scenario& scenario, const std::string& path) { return scenario.file.parent_path() / path; }

fs::path named_file(Scenario& scenario, const YamlNode& node) {
  return scenario.files[node.key] = beside_scenario(scenario, text_of(node));
}

fs::path platforms_folder() {
  // What was installed with the program; for one that stands where it was built, the sources.
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path installed = program.parent_path().parent_path() / "share/shardsim/platforms";
  return fs::is_directory(installed, error) ? installed : fs::path(SHARDSIM_DATA_DIR) / "platforms";
}

std::vector<std::string> shipped_platforms() {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(platforms_folder(), error))
    if (entry.path().extension() == ".xml") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

void read_knobs(const Fields& root, Scenario& scenario, std::vector<std::string>& defaults) {
  Knobs& knobs = scenario.knobs;
  YamlNode empty;
  empty.kind = YamlNode::Kind::map, empty.key = "batch";
  const YamlNode* batch = root.find("batch");
  const Fields fields(batch ? *batch : empty, {"micro", "sequence", "accumulation"}, defaults);
  scenario.micro_batch = fields.integer_or("micro", 1, 1, most);
  knobs.accumulation = int(fields.integer_or("accumulation", 1, 1, 1'000'000));
  read_precision(root, knobs, defaults);
  read_optimizer(root, knobs, defaults);
  read_mesh(root, scenario);
  knobs.units = root.value_or("units", Cut{}, "layer", [&](const YamlNode& node) { return cut_of(node, defaults); });
  knobs.streams = int(root.integer_or("streams", 2, 1, 4));
  knobs.prefetch = root.value_or("prefetch", 1, "1", budget_of);
  knobs.unreduced = root.value_or("unreduced", 1, "1", budget_of);
  knobs.grads_resident = root.value_or("grads", true, "resident", [](const YamlNode& node) {
    return choice_of(node, {"resident", "transient"}) == 0;
  });
  knobs.step_barrier = root.switch_or("step_barrier", true);
}

}  // namespace shardsim
