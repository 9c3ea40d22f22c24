// Runs of deepspeed with options by name, on a small transformer; shared by its tests.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "app/scenario_model.h"
#include "property/runs.h"

namespace shardsim::test {

using Words = std::map<std::string, std::string>;

inline SchemeChoice deepspeed(const Words& words) {
  static const Registry registry = built_in_schemes();
  const SchemeEntry& entry = *registry.find("deepspeed");
  Options options(entry.options);
  for (const auto& [name, value] : words) options.set(name, value);
  return {entry, options};
}

inline SchemeResult run(const Scenario& s, const Words& words) { return run_scheme(s, TrainingSet(s), deepspeed(words)); }

inline Words with(Words words, const Words& more) {
  for (const auto& [name, value] : more) words[name] = value;
  return words;
}

inline Words stage(int number, const Words& more = {}) { return with({{"stage", std::to_string(number)}}, more); }
inline const Words overlap{{"overlap_comm", "true"}};

/// Nothing in it divides by 3 or by 8, and some pieces are empty.
inline Scenario small_transformer(bool tied = true) {
  Scenario s = small_scenario();
  s.model = {}, s.world = 3, s.steps = 3, s.micro_batch = 2;
  s.transformer = TransformerChoice{};
  TransformerShape& shape = s.transformer->shape;
  shape.family = Family::gpt2, shape.tied = tied, shape.layers = 2, shape.hidden = 20, shape.heads = shape.kv_heads = 4;
  shape.head_dim = 5, shape.ffn = 44, shape.vocab = 29, shape.positions = 12;
  s.transformer->sequence = 8;
  return s;
}

/// Rank 0's collectives of the last step, in order.
inline std::vector<Span> collectives(const SchemeResult& result, Verb verb, bool control = false) {
  const RankResult& rank = result.ranks[0];
  std::vector<Span> found;
  for (const Span& span : rank.spans)
    if (span.op == Span::collective && span.control == control && (control || span.verb == verb) &&
        span.begin >= rank.step_begin.back())
      found.push_back(span);
  return found;
}

inline double worst_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  REQUIRE(!a.empty());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(double(a[i]) / double(b[i]) - 1));
  return worst;
}

}  // namespace shardsim::test
