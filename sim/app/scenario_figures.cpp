// Reading figures by scheme: strictly, under the names of the README.
#include "app/scenario_figures.h"

#include <algorithm>

#include "app/scenario_schemes.h"

namespace shardsim {
namespace {

/// The value of a figure: a number, or a quantity with a unit where its name says which.
double value_of(const std::string& figure, const YamlNode& node) {
  const bool has_unit = node.kind == YamlNode::Kind::scalar && !number_in(node.text);
  const double value = has_unit && figure.ends_with("_bytes")     ? bytes_of(node)
                       : has_unit && figure.ends_with("_seconds") ? seconds_of(node)
                                                                  : number_of(node);
  if (value < 0 && figure != "over_single_gpu_seconds" && !figure.starts_with("loss"))
    refuse(node, quoted(node.text) + " is less than 0, which this figure never is");
  return value;
}

/// A measured figure of the same scheme.
double measured_value(const YamlNode& about, const std::string& figure, const std::vector<Expectation>& measured) {
  for (const Expectation& each : measured)
    if (each.key == figure) return each.value;
  refuse(about, "there is no " + figure + " of this scheme in the block measured; write it there, or a number here");
}

/// `traffic: 3`, `step_seconds: {about: 0.36s, within: 10%}` or `step_seconds: {about: measured, within: 10%}`.
Expectation expectation_of(const YamlNode& node, const std::vector<Expectation>& measured) {
  Expectation expectation{node.name, 0, 0, node.line};
  if (node.kind != YamlNode::Kind::map) {
    expectation.value = value_of(node.name, node);
    return expectation;
  }
  std::vector<std::string> unmentioned;
  const Fields fields(node, {"about", "within"}, unmentioned);
  const YamlNode& about = fields.need("about", "{about: 3.83, within: 1%}");
  expectation.value = about.kind == YamlNode::Kind::scalar && about.text == "measured" ? measured_value(about, node.name, measured)
                                                                                       : value_of(node.name, about);
  const YamlNode& within = fields.need("within", "{about: 3.83, within: 1%}");
  expectation.within = share_of(within);
  if (expectation.within == 0) refuse(within, quoted(within.text) + " is out of range; a tolerance is greater than 0");
  return expectation;
}

/// Calls take(label, figure) for each figure in a block of schemes, and beside(key) for the one key that is none.
template <class Take, class Beside>
void for_each_figure(const YamlNode& block, const Fields& root, const Scenario& scenario, const Registry& registry,
                     const std::string& key_beside, const Take& take, const Beside& beside) {
  std::vector<std::string> known = {key_beside};
  for (const SchemeEntry& entry : registry.entries()) known.push_back(entry.name);
  for (const SchemeChoice& choice : scenario.schemes)
    if (!registry.find(choice.label)) known.push_back(choice.label);
  // Of schemes that are not run, the names are known; and the labels, where the command line says what runs instead.
  const auto is_known = [&](const std::string& key) {
    return std::count(known.begin(), known.end(), key) > 0 ||
           (root.find("schemes")->origin == "--set" && registry.find(key.substr(0, key.find('-'))));
  };
  for (const YamlNode& node : block.children) {
    refuse_if_repeated(block, node);
    if (!is_known(node.name)) refuse(node, "unknown key; known keys: " + joined(known));
    if (node.name == key_beside) {
      beside(node);
      continue;
    }
    if (node.kind != YamlNode::Kind::map)
      refuse(node, "is " + in_words(node) + ", but a map is expected; write it as {traffic: 3}");
    const SchemeChoice* choice = find_choice(scenario.schemes, node.name);
    const auto is_of_it = [&](const SchemeChoice& each) { return each.entry.name == node.name; };
    if (!choice && std::any_of(scenario.schemes.begin(), scenario.schemes.end(), is_of_it))
      refuse(node, "which of them? The schemes are " + labels(scenario.schemes));
    for (const YamlNode& figure : node.children) {
      refuse_if_repeated(node, figure);
      if (std::count(figure_keys().begin(), figure_keys().end(), figure.name) == 0)
        refuse(figure, "unknown key; known keys: " + joined(figure_keys()));
      take(choice ? choice->label : node.name, figure);
    }
  }
}

void read_measured(const YamlNode& block, const Fields& root, Scenario& scenario, const Registry& registry) {
  constexpr char example[] = "{source: who measured it, zero3: {step_seconds: 360ms}}";
  if (block.kind != YamlNode::Kind::map) refuse(block, "is " + in_words(block) + ", but a map is expected; write it as " + example);
  for_each_figure(
      block, root, scenario, registry, "source",
      [&](const std::string& label, const YamlNode& figure) {
        scenario.measured[label].push_back({figure.name, value_of(figure.name, figure), 0, figure.line});
      },
      [&](const YamlNode& source) { scenario.measured_source = text_of(source); });
  if (scenario.measured_source.empty()) refuse(block, std::string("the key 'source' is missing; write it as ") + example);
}

void read_expectations(const YamlNode& block, const Fields& root, Scenario& scenario, const Registry& registry) {
  if (block.kind != YamlNode::Kind::map)
    refuse(block, "is " + in_words(block) + ", but a map is expected; write it as {zero3: {traffic: 3}, theta: equal}");
  for_each_figure(
      block, root, scenario, registry, "theta",
      [&](const std::string& label, const YamlNode& figure) {
        scenario.expect[label].push_back(expectation_of(figure, scenario.measured[label]));
      },
      [&](const YamlNode& theta) {
        choice_of(theta, {"equal"});
        if (!scenario.records_theta) refuse(theta, "cannot be checked with record: {theta: off}; leave one of the two out");
        scenario.expect_equal_theta = true;
      });
}

}  // namespace

const std::vector<std::string>& figure_keys() {
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

void read_figures(const Fields& root, Scenario& scenario, const Registry& registry) {
  if (const YamlNode* measured = root.find("measured")) read_measured(*measured, root, scenario, registry);
  if (const YamlNode* expect = root.find("expect")) read_expectations(*expect, root, scenario, registry);
}

}  // namespace shardsim
