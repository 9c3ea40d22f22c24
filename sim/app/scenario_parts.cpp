// Reading the parts of a scenario that have keys of their own.
#include "app/scenario_parts.h"

#include <algorithm>
#include <limits>

#include "app/scenario_training.h"
#include "formats/npy.h"

namespace shardsim {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t most = std::numeric_limits<int>::max() - 1;
constexpr std::int64_t most_parameters = std::int64_t{1} << 50;

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

MlpChoice read_mlp(const YamlNode& node, const Scenario& scenario, std::vector<std::string>& defaults) {
  if (node.kind == YamlNode::Kind::scalar)
    refuse(node, "there is no model " + quoted(node.text) + "; write it as {kind: mlp, widths: [8, 32, 4]}");
  const Fields fields(node, {"kind", "widths", "activation", "loss", "theta0"}, defaults);
  MlpChoice mlp;
  choice_of(fields.need("kind", "kind: mlp"), {"mlp"});
  const YamlNode& widths = fields.need("widths", "widths: [8, 32, 4]");
  for (const YamlNode& width : list_of(widths, "[8, 32, 4]")) mlp.widths.push_back(integer_of(width, 1, most));
  if (mlp.widths.size() < 2) refuse(widths, "holds one width, but an input's and an output's are needed; write it as [8, 32, 4]");
  double parameters = 0;
  for (std::size_t i = 0; i + 1 < mlp.widths.size(); ++i) parameters += double(mlp.widths[i] + 1) * double(mlp.widths[i + 1]);
  if (parameters > double(most_parameters)) refuse(widths, "make a model of more than 2^50 parameters; choose smaller ones");
  mlp.activation = fields.value_or("activation", std::string("tanh"), "tanh", [](const YamlNode& value) {
    choice_of(value, {"tanh"});
    return value.text;
  });
  mlp.loss = fields.value_or("loss", std::string("mse"), "mse", [](const YamlNode& value) {
    choice_of(value, {"mse"});
    return value.text;
  });
  if (const YamlNode* theta0 = fields.find("theta0")) mlp.theta0 = beside_scenario(scenario, text_of(*theta0));
  return mlp;
}

/// The shape of a .npy file, all of which is read and checked; what is wrong is said with the scenario's line.
std::vector<std::int64_t> checked_shape(const YamlNode& node, const fs::path& file, std::size_t dimensions) {
  try {
    return formats::read_npy(file, dimensions).shape;
  } catch (const ScenarioError& error) {
    refuse(node, error.what());
  }
}

void check_columns(const YamlNode& node, const fs::path& file, std::int64_t columns, std::int64_t width, const char* which) {
  if (columns != width)
    refuse(node, file.string() + ": has " + std::to_string(columns) + " columns, but the model's " + which + " width is " +
                     std::to_string(width));
}

void read_data(const Fields& root, Scenario& scenario, std::vector<std::string>& defaults) {
  const bool needed = scenario.numerics != Numerics::off;
  const YamlNode* node = root.find("data");
  if (!node) {
    if (needed) defaults.push_back("data: {teacher: {rows: " + std::to_string(scenario.data.rows) + "}}");
    return;
  }
  const Fields fields(*node, {"x", "y", "teacher"}, defaults);
  if (const YamlNode* teacher = fields.find("teacher")) {
    if (fields.find("x") || fields.find("y"))
      refuse(*teacher, "stands beside x or y; data comes from a teacher or from files, not from both");
    scenario.data.rows = integer_of(Fields(*teacher, {"rows"}, defaults).need("rows", "teacher: {rows: 4096}"), 1, most);
    return;
  }
  const YamlNode &x = fields.need("x", "data: {x: x.npy, y: y.npy}"), &y = fields.need("y", "data: {x: x.npy, y: y.npy}");
  scenario.data.x = beside_scenario(scenario, text_of(x)), scenario.data.y = beside_scenario(scenario, text_of(y));
  if (scenario.numerics == Numerics::twin)
    refuse(x, "files have the full widths, but a twin has smaller ones; use numerics: full or a teacher");
  const auto of_x = checked_shape(x, scenario.data.x, 2), of_y = checked_shape(y, scenario.data.y, 2);
  check_columns(x, scenario.data.x, of_x[1], scenario.model.widths.front(), "input");
  check_columns(y, scenario.data.y, of_y[1], scenario.model.widths.back(), "output");
  if (of_x[0] == 0) refuse(x, scenario.data.x.string() + ": has no rows");
  if (of_x[0] != of_y[0])
    refuse(y, scenario.data.y.string() + ": has " + std::to_string(of_y[0]) + " rows, but x has " + std::to_string(of_x[0]));
}

void read_numerics(const Fields& root, Scenario& scenario, std::vector<std::string>& defaults) {
  const YamlNode* node = root.find("numerics");
  if (!node) {
    defaults.push_back("numerics: full");
    return;
  }
  if (node->kind == YamlNode::Kind::map) {
    const Fields fields(*node, {"mode", "width"}, defaults);
    const YamlNode& mode = fields.need("mode", "numerics: {mode: twin, width: 32}");
    choice_of(mode, {"twin"});
    scenario.numerics = Numerics::twin;
    scenario.twin_width = integer_of(fields.need("width", "numerics: {mode: twin, width: 32}"), 1, most);
    return;
  }
  if (node->kind == YamlNode::Kind::scalar && node->text == "twin")
    refuse(*node, "a twin needs a width; write it as {mode: twin, width: 32}");
  if (node->kind == YamlNode::Kind::scalar && node->text != "full" && node->text != "off")
    refuse(*node, "unknown value " + quoted(node->text) + "; known values: full, off, {mode: twin, width: 32}");
  scenario.numerics = choice_of(*node, {"full", "off"}) == 0 ? Numerics::full : Numerics::off;
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
                                                "step_seconds",
                                                "compute_seconds",
                                                "exposed_comm_seconds",
                                                "loss_first",
                                                "loss_last",
                                                "parameters",
                                                "padding"};
  return keys;
}

void read_knobs(const Fields& root, Scenario& scenario, std::vector<std::string>& defaults) {
  Knobs& knobs = scenario.knobs;
  YamlNode empty;
  empty.kind = YamlNode::Kind::map, empty.key = "batch";
  const YamlNode* batch = root.find("batch");
  const Fields fields(batch ? *batch : empty, {"micro", "accumulation"}, defaults);
  scenario.micro_batch = fields.integer_or("micro", 1, 1, most);
  knobs.accumulation = int(fields.integer_or("accumulation", 1, 1, 1'000'000));
  read_precision(root, knobs, defaults);
  read_optimizer(root, knobs, defaults);
  read_mesh(root, scenario);
  knobs.units = root.value_or("units", Cut{}, "layer", [&](const YamlNode& node) { return cut_of(node, defaults); });
  knobs.streams = int(root.integer_or("streams", 2, 1, 3));
  knobs.prefetch = root.value_or("prefetch", 1, "1", budget_of);
  knobs.unreduced = root.value_or("unreduced", 1, "1", budget_of);
  knobs.grads_resident = root.value_or("grads", true, "resident", [](const YamlNode& node) {
    return choice_of(node, {"resident", "transient"}) == 0;
  });
  knobs.step_barrier = root.switch_or("step_barrier", true);
}

void read_model_and_data(const Fields& root, Scenario& scenario, std::vector<std::string>& defaults) {
  read_numerics(root, scenario, defaults);
  const YamlNode& model = root.need("model", "model: {kind: mlp, widths: [8, 32, 4]}");
  scenario.model = read_mlp(model, scenario, defaults);
  for (const std::int64_t width : scenario.model.widths)
    if (double(scenario.micro_batch) * double(width) > double(most_parameters))
      refuse(*model.child("widths"), "and batch.micro make an activation of more than 2^50 numbers; choose smaller ones");
  if (!scenario.model.theta0.empty()) {
    const YamlNode& theta0 = *model.child("theta0");
    if (scenario.numerics == Numerics::twin)
      refuse(theta0, "a file has the full widths, but a twin has smaller ones; use numerics: full or leave theta0 out");
    std::int64_t parameters = 0;
    const std::vector<std::int64_t>& widths = scenario.model.widths;
    for (std::size_t i = 0; i + 1 < widths.size(); ++i) parameters += (widths[i] + 1) * widths[i + 1];
    const std::int64_t there = checked_shape(theta0, scenario.model.theta0, 1)[0];
    if (there != parameters)
      refuse(theta0, scenario.model.theta0.string() + ": holds " + std::to_string(there) + " numbers, but the model has " +
                         std::to_string(parameters) + " parameters");
  }
  read_data(root, scenario, defaults);
}

void read_expectations(const Fields& root, Scenario& scenario, const Registry& registry) {
  const YamlNode* expect = root.find("expect");
  if (!expect) return;
  if (expect->kind != YamlNode::Kind::map)
    refuse(*expect, "is " + in_words(*expect) + ", but a map is expected; write it as {zero3: {traffic: 3}, theta: equal}");
  std::vector<std::string> known = {"theta"};
  for (const SchemeEntry& entry : registry.entries()) known.push_back(entry.name);
  for (const YamlNode& node : expect->children) {
    const YamlNode* first = expect->child(node.name);
    if (first != &node) refuse(node, "is given twice, first in line " + std::to_string(first->line) + "; remove one");
    if (std::find(known.begin(), known.end(), node.name) == known.end()) refuse(node, "unknown key; known keys: " + joined(known));
    if (node.name == "theta") {
      choice_of(node, {"equal"});
      scenario.expect_equal_theta = true;
      continue;
    }
    if (node.kind != YamlNode::Kind::map)
      refuse(node, "is " + in_words(node) + ", but a map is expected; write it as {traffic: 3}");
    for (const YamlNode& figure : node.children) {
      if (node.child(figure.name) != &figure) refuse(figure, "is given twice; remove one");
      scenario.expect[node.name].push_back(read_expectation(figure));
    }
  }
}

}  // namespace shardsim
