// Reading the parts of a scenario that have keys of their own.
#include "app/scenario_parts.h"

#include <algorithm>
#include <limits>

#include "app/scenario_schemes.h"
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
    refuse(size, quoted(size.text) + " is out of range; a bucket has at least one byte");
  return {Cut::Kind::bucket, std::int64_t(bytes)};
}

Expectation read_expectation(const YamlNode& node) {
  Expectation expectation{node.name, 0, 0, node.line};
  const std::vector<std::string>& known = expectation_keys();
  if (std::find(known.begin(), known.end(), node.name) == known.end()) refuse(node, "unknown key; known keys: " + joined(known));
  const auto number = [&node](const YamlNode& value) {
    if (value.kind == YamlNode::Kind::scalar && !number_in(value.text)) {
      if (node.name.ends_with("_bytes")) return bytes_of(value);
      if (node.name.ends_with("_seconds")) return seconds_of(value);
    }
    return number_of(value);
  };
  if (node.kind != YamlNode::Kind::map) {
    expectation.value = number(node);
    return expectation;
  }
  std::vector<std::string> unmentioned;
  const Fields fields(node, {"about", "within"}, unmentioned);
  expectation.value = number(fields.need("about", "{about: 3.83, within: 1%}"));
  const YamlNode& within = fields.need("within", "{about: 3.83, within: 1%}");
  expectation.within = share_of(within);
  if (expectation.within <= 0) refuse(within, quoted(within.text) + " is out of range; a tolerance is greater than 0");
  return expectation;
}

}  // namespace

fs::path beside_scenario(const Scenario& scenario, const std::string& path) { return scenario.file.parent_path() / path; }

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

const std::vector<std::string>& expectation_keys() {
  static const std::vector<std::string> keys = {"traffic",
                                                "resident_bytes_per_param",
                                                "model_state_peak_bytes_per_param",
                                                "bytes_sent_per_rank_per_step",
                                                "control_bytes_per_rank_per_step",
                                                "resident_bytes",
                                                "model_state_peak_bytes",
                                                "peak_bytes",
                                                "host_resident_bytes",
                                                "host_peak_bytes",
                                                "host_link_bytes_per_rank_per_step",
                                                "allocated_peak_bytes",
                                                "allocated_resident_bytes",
                                                "over_single_gpu_seconds",
                                                "reserved_bytes",
                                                "outside_bytes",
                                                "step_seconds",
                                                "last_step_seconds",
                                                "compute_seconds",
                                                "exposed_comm_seconds",
                                                "loss_first",
                                                "loss_last",
                                                "loss_last_tenth",
                                                "parameters",
                                                "padding"};
  return keys;
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

void read_expectations(const Fields& root, Scenario& scenario, const Registry& registry) {
  const YamlNode* expect = root.find("expect");
  if (!expect) return;
  if (expect->kind != YamlNode::Kind::map)
    refuse(*expect, "is " + in_words(*expect) + ", but a map is expected; write it as {zero3: {traffic: 3}, theta: equal}");
  std::vector<std::string> known = {"theta"};
  for (const SchemeEntry& entry : registry.entries()) known.push_back(entry.name);
  for (const SchemeChoice& choice : scenario.schemes)
    if (!registry.find(choice.label)) known.push_back(choice.label);
  // Of schemes that are not run, the names are known; and the labels, where the command line says what runs instead.
  const auto is_known = [&](const std::string& key) {
    return std::count(known.begin(), known.end(), key) > 0 ||
           (root.find("schemes")->origin == "--set" && registry.find(key.substr(0, key.find('-'))));
  };
  for (const YamlNode& node : expect->children) {
    const YamlNode* first = expect->child(node.name);
    if (first != &node) refuse(node, "is given twice, first in line " + std::to_string(first->line) + "; remove one");
    if (!is_known(node.name)) refuse(node, "unknown key; known keys: " + joined(known));
    if (node.name == "theta") {
      choice_of(node, {"equal"});
      scenario.expect_equal_theta = true;
      continue;
    }
    if (node.kind != YamlNode::Kind::map)
      refuse(node, "is " + in_words(node) + ", but a map is expected; write it as {traffic: 3}");
    const SchemeChoice* choice = find_choice(scenario.schemes, node.name);
    const auto is_of_it = [&](const SchemeChoice& each) { return each.entry.name == node.name; };
    if (!choice && std::any_of(scenario.schemes.begin(), scenario.schemes.end(), is_of_it))
      refuse(node, "which of them? The schemes are " + labels(scenario.schemes));
    for (const YamlNode& figure : node.children) {
      if (node.child(figure.name) != &figure) refuse(figure, "is given twice; remove one");
      scenario.expect[choice ? choice->label : node.name].push_back(read_expectation(figure));
    }
  }
}

}  // namespace shardsim
