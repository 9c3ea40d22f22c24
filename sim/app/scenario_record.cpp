// Reading `record:`; a number of ranks is the first so many, a list names them.
#include "app/scenario_record.h"

#include <cmath>

namespace shardsim {
namespace {

/// Adds "3" or "8-15".
void add_ranks(const YamlNode& node, RankSet& ranks, int world) {
  const std::string text = text_of(node);
  const std::size_t dash = text.find('-');
  const auto first = number_in(text.substr(0, dash));
  const auto last = dash == std::string::npos ? first : number_in(text.substr(dash + 1));
  if (!first || !last || *first != std::floor(*first) || *last != std::floor(*last) || *first > *last)
    refuse(node, quoted(text) + " names no ranks; write a number or a range, as in [0, 1, 8-15]");
  if (*last >= world)
    refuse(node, quoted(text) + " is out of range; the ranks of this world are 0 to " + std::to_string(world - 1));
  ranks.add(int(*first), int(*last));
}

RankSet ranks_of(const YamlNode& node, int world) {
  if (node.kind == YamlNode::Kind::scalar && number_in(node.text)) return int(integer_of(node, 1, 1 << 20));
  RankSet ranks = 0;
  if (node.kind == YamlNode::Kind::scalar) {
    add_ranks(node, ranks, world);
    return ranks;
  }
  for (const YamlNode& each : list_of(node, "ranks: [0, 1, 8-15]")) add_ranks(each, ranks, world);
  return ranks;
}

}  // namespace

void read_record(const Fields& root, Scenario& scenario) {
  const YamlNode* node = root.find("record");
  if (!node) return;
  std::vector<std::string> unmentioned;  // they change no figure
  const Fields record(*node, {"ranks", "spans", "theta", "per_rank", "gzip"}, unmentioned);
  if (const YamlNode* ranks = record.find("ranks")) scenario.recorded_ranks = ranks_of(*ranks, scenario.world);
  scenario.records_spans = record.switch_or("spans", false);
  scenario.records_theta = record.switch_or("theta", true);
  scenario.trace_per_rank = record.switch_or("per_rank", false);
  scenario.trace_gzip = record.switch_or("gzip", false);
}

}  // namespace shardsim
