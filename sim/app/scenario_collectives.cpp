// Reading the scenario's `collectives`.
#include "app/scenario_collectives.h"

#include <stdexcept>

#include "core/quantity.h"

namespace shardsim {
namespace {

using cost::Algorithm;
using cost::Protocol;

double bandwidth_of(const YamlNode& node) {
  const std::string text = text_of(node);
  if (number_in(text)) refuse(node, quoted(text) + " has no unit; write for example 361GBps");
  try {
    const double value = parse_quantity(text, Measure::bytes_per_second);
    if (value >= 1 && value <= 1e18) return value;
  } catch (const std::invalid_argument& error) {
    refuse(node, error.what());
  }
  refuse(node, quoted(text) + " is out of range; write a bus bandwidth from 1Bps to 1e9GBps");
}

double latency_of(const YamlNode& node) {
  const double value = seconds_of(node);
  if (value >= 0 && value <= 1e6) return value;
  refuse(node, quoted(node.text) + " is out of range; write a latency from 0s to 1e6s");
}

/// Calls read(measured, value) for each collective that the map names.
template <class Read>
void read_measured(const YamlNode& map, Scenario& scenario, const Read& read) {
  std::vector<std::string> unmentioned;
  const Fields fields(map, {"all_reduce", "reduce_scatter", "all_gather", "reduce", "broadcast", "all_to_all"}, unmentioned);
  for (const Verb verb : collective_verbs)
    if (const YamlNode* value = fields.find(name_of(verb))) {
      read(scenario.collectives.of(verb), *value);
      scenario.notes.push_back(map.key + "." + name_of(verb) + ": " + value->text + " (scenario)");
    }
}

}  // namespace

void read_collectives(const Fields& root, Scenario& scenario) {
  const YamlNode* node = root.find("collectives");
  if (!node) return;
  std::vector<std::string> unmentioned;
  const Fields fields(*node, {"algorithm", "protocol", "bus", "alpha"}, unmentioned);
  cost::CollectiveRules& rules = scenario.collectives;
  const YamlNode *algorithm = fields.find("algorithm"), *protocol = fields.find("protocol");
  const YamlNode *bus = fields.find("bus"), *alpha = fields.find("alpha");
  if (algorithm)
    if (const std::size_t choice = choice_of(*algorithm, {"auto", "ring", "tree", "nvls"}); choice > 0)
      rules.algorithm = Algorithm(choice - 1);
  if (protocol)
    if (const std::size_t choice = choice_of(*protocol, {"auto", "LL", "LL128", "Simple"}); choice > 0)
      rules.protocol = Protocol(choice - 1);
  if (bus) read_measured(*bus, scenario, [](cost::Measured& of, const YamlNode& value) { of.bus = bandwidth_of(value); });
  if (alpha) read_measured(*alpha, scenario, [](cost::Measured& of, const YamlNode& value) { of.alpha = latency_of(value); });

  const bool is_ring = scenario.backend == "simgrid" && scenario.fabric == Fidelity::ring;
  const char* ring_only = "; fabric: ring sends real messages in a ring, with the protocol Simple; choose coupled or formula";
  if (is_ring && (bus || alpha)) refuse(bus ? *bus : *alpha, std::string("replaces what a collective costs") + ring_only);
  if (is_ring && rules.algorithm && rules.algorithm != Algorithm::ring)
    refuse(*algorithm, quoted(algorithm->text) + " is no ring" + ring_only);
  if (is_ring && rules.protocol && rules.protocol != Protocol::simple)
    refuse(*protocol, quoted(protocol->text) + " is another protocol" + ring_only);
  if (scenario.latency == Latency::platform && (rules.algorithm || rules.protocol))
    refuse(rules.algorithm ? *algorithm : *protocol,
           "is a choice of NCCL's, but latency: platform pays the platform's links; add latency: nccl");
  if (rules.algorithm == Algorithm::nvls && rules.protocol && rules.protocol != Protocol::simple)
    refuse(*protocol, quoted(protocol->text) + " does not go with algorithm: nvls, which has the protocol Simple only");
}

}  // namespace shardsim
