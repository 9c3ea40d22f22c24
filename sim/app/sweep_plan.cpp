// The plan of a sweep: every point's scenario is read, and refused where no other value could save it.
#include "app/sweep_plan.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "app/fingerprint.h"
#include "app/run.h"
#include "app/scenario.h"
#include "core/error.h"

namespace shardsim {
namespace {

namespace fs = std::filesystem;

/// Adds files by what is in them, each of which is read once.
class FilePrints {
 public:
  void add(const fs::path& file, Fingerprint& to) {
    const auto [found, is_new] = known_.try_emplace(file, 0);
    if (is_new) found->second = fingerprint_of(file);
    to.add(std::to_string(found->second));
  }

 private:
  std::map<fs::path, std::uint64_t> known_;
};

bool changes_no_figure(const YamlNode& key) { return key.name == "name" || key.name == "expect" || key.name == "sweep"; }

std::string as_override(const std::string& key, const std::string& value) { return std::string(key).append("=").append(value); }

/// "--set batch.micro: what" becomes "--grid batch.micro: what" where the grid said so; nothing if it did not.
std::string placed(const std::string& message, const SweepAxis& axis) {
  for (const std::string& key : axis.keys) {
    const std::string prefix = "--set " + key;
    if (message.starts_with(prefix) && message.find_first_of(":.[ ", prefix.size()) == prefix.size())
      return axis.place + " " + message.substr(6);
  }
  return {};
}

/// Throws ScenarioError: what can be known to be wrong before anything runs.
Scenario checked_scenario(const SweepPlan& plan, const YamlNode& tree, const Registry& registry) {
  const Scenario scenario = scenario_of(plan.file, tree, registry);
  if (scenario.backend != "simgrid")
    throw ScenarioError(scenario.file.string() + ": backend: a sweep compares simulated seconds; write backend: simgrid");
  for (const SchemeChoice& choice : scenario.schemes) check_that_numbers_fit(scenario, choice);
  return scenario;
}

/// A value with which every point is refused is wrong by itself.
void refuse_values(const SweepPlan& plan, const std::vector<std::string>& refusals) {
  const std::vector<SweepAxis>& axes = plan.grid.axes();
  for (std::size_t a = 0; a < axes.size(); ++a) {
    std::vector<bool> is_accepted(axes[a].values.size(), false);
    std::vector<std::string> why(axes[a].values.size());
    for (std::size_t point = 0; point < refusals.size(); ++point) {
      const std::size_t value = plan.grid.choices(point)[a];
      if (refusals[point].empty()) is_accepted[value] = true;
      else if (why[value].empty() || placed(why[value], axes[a]).empty()) why[value] = refusals[point];
    }
    for (std::size_t value = 0; value < why.size(); ++value) {
      if (is_accepted[value]) continue;
      for (const SweepAxis& axis : axes)
        if (const std::string text = placed(why[value], axis); !text.empty()) throw ScenarioError(text);
      if (std::none_of(is_accepted.begin(), is_accepted.end(), [](bool is) { return is; })) throw ScenarioError(why[value]);
      std::string text = axes[a].place;
      for (std::size_t k = 0; k < axes[a].keys.size(); ++k)
        text += (k ? ", " : " ") + as_override(axes[a].keys[k], axes[a].values[value][k]);
      throw ScenarioError(text + ": " + why[value]);
    }
  }
}

}  // namespace

YamlNode SweepPlan::tree(std::size_t point) const {
  YamlNode tree = base;
  const std::vector<std::string> keys = grid.keys(), cells = grid.cells(point);
  for (std::size_t k = 0; k < keys.size(); ++k) override_yaml(tree, as_override(keys[k], cells[k]));
  return tree;
}

SweepPlan make_plan(const SweepRequest& request, const Registry& registry) {
  std::vector<SweepAxis> of_command_line, of_block;
  for (const std::string& text : request.axes) of_command_line.push_back(read_axis(text));
  YamlNode base = read_yaml(request.scenario);
  for (const std::string& assignment : request.overrides) override_yaml(base, assignment);
  if (const YamlNode* block = base.child("sweep")) of_block = read_sweep_block(*block);
  SweepPlan plan{request.scenario, base, SweepGrid(std::move(of_block), std::move(of_command_line)), {}};
  for (const std::string& assignment : request.overrides)
    for (const std::string& key : plan.grid.keys())
      if ((assignment.substr(0, assignment.find('=')) + ".").starts_with(key + "."))
        throw ScenarioError("--set " + quoted(assignment) + ": the grid has " + key + " too; remove one");
  if (plan.grid.size() > request.most)
    throw ScenarioError("sweep: the grid has " + std::to_string(std::llround(std::min(plan.grid.size(), 1e18))) +
                        " points, more than --max " + std::to_string(request.most) + "; take values away, or raise --max");

  FilePrints files;
  Fingerprint program;
  files.add("/proc/self/exe", program);
  for (const fs::path& library : request.libraries) files.add(library, program);
  std::vector<std::string> refusals(std::size_t(plan.grid.size()));
  for (std::size_t point = 0; point < refusals.size(); ++point) {
    try {
      YamlNode tree = plan.tree(point);
      const Scenario scenario = checked_scenario(plan, tree, registry);
      std::erase_if(tree.children, changes_no_figure);
      Fingerprint of_point = program;
      of_point.add(yaml_text(tree));
      for (const auto& [key, file] : scenario.files) files.add(file, of_point);
      for (const SchemeChoice& choice : scenario.schemes) {
        Fingerprint of_run = of_point;
        of_run.add(choice.label);
        plan.runs.push_back({point, choice.label, {}, of_run.value()});
      }
    } catch (const ScenarioError& error) {
      refusals[point] = error.what();
      plan.runs.push_back({point, {}, refusals[point], 0});
    }
  }
  refuse_values(plan, refusals);
  return plan;
}

}  // namespace shardsim
