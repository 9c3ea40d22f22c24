// Prices: names of the table, and facts by name.
#include "app/prices.h"

#include <algorithm>
#include <stdexcept>

#include "app/scenario_parts.h"
#include "cost/gpus.h"
#include "cost/stack.h"

namespace shardsim {
namespace {

void refuse_unknown(const YamlNode& map, const std::vector<std::string>& known) {
  if (map.kind != YamlNode::Kind::map)
    refuse(map, "is " + in_words(map) + ", but a map is expected; write it as {gemm_efficiency: 0.65, stack: compiled}");
  for (const YamlNode& field : map.children) {
    if (std::find(known.begin(), known.end(), field.name) == known.end())
      refuse(field, "unknown key; known keys: " + joined(known));
    refuse_if_repeated(map, field);
  }
}

std::vector<std::string> known_keys(std::initializer_list<const char*> more) {
  std::vector<std::string> keys = {"gpu", "stack", "attention"};
  for (const std::string& fact : cost::fact_names()) keys.push_back(fact);
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

/// Names and values of one map, over those that are there.
void read_values(const YamlNode& map, Origin origin, cost::Prices& prices) {
  for (const YamlNode& field : map.children) {
    const std::vector<std::size_t> facts = cost::facts_named(field.name);
    if (facts.empty() && (field.name == "from" || field.name == "calibrated")) continue;
    const std::string text = text_of(field);
    if (field.name == "gpu") {
      if (!cost::find_gpu(text))
        refuse(field, "there is no GPU " + quoted(text) + " in the table; known GPUs: " + cost::known_gpus());
      prices.gpu = text;
    } else if (field.name == "stack") {
      std::vector<std::string> names;
      for (const cost::Stack& stack : cost::stacks()) names.push_back(stack.name);
      choice_of(field, names);
      prices.stack = text;
    } else if (field.name == "attention") {
      choice_of(field, {"unfused", "triton", "fa1", "fa2", "cudnn", "fa3", "fa4"});
      prices.attention = text;
    }
    for (const std::size_t fact : facts) {
      try {
        prices.values.push_back({fact, cost::parse_fact(cost::facts()[fact], text), origin});
      } catch (const std::invalid_argument& error) {
        refuse(field, error.what());
      }
    }
  }
}

}  // namespace

cost::Prices read_prices(const YamlNode& node, Scenario& scenario) {
  refuse_unknown(node, known_keys({"from", "calibrated"}));
  cost::Prices prices;
  if (const YamlNode* from = node.child("from")) {
    const std::filesystem::path place = named_file(scenario, *from);
    if (!std::filesystem::exists(place)) refuse(*from, place.string() + ": there is no such file; check the path");
    const YamlNode file = read_yaml(place);
    refuse_unknown(file, known_keys({}));
    read_values(file, Origin::calibrated, prices);
  }
  if (const YamlNode* calibrated = node.child("calibrated")) {
    refuse_unknown(*calibrated, known_keys({}));
    read_values(*calibrated, Origin::calibrated, prices);
  }
  read_values(node, Origin::scenario, prices);
  return prices;
}

std::string prices_note(const Gpu& gpu) {
  const std::string facts = cost::facts_beyond_platform(gpu);
  if (facts.empty()) return {};
  return "Prices of " + gpu.name + ", beyond what the platform says: " + facts + "; stack " + gpu.stack +
         (gpu.attention.empty() ? "" : ", attention " + gpu.attention) + ".";
}

}  // namespace shardsim
