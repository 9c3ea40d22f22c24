// Runs of deepspeed with options by name; shared by its tests.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "systems/systems.h"

namespace shardsim::test {

inline SchemeResult run(const Scenario& s, const Words& words) { return train(s, "deepspeed", words); }

inline Words with(Words words, const Words& more) {
  for (const auto& [name, value] : more) words[name] = value;
  return words;
}

inline Words stage(int number, const Words& more = {}) { return with({{"stage", std::to_string(number)}}, more); }
inline const Words overlap{{"overlap_comm", "true"}};

/// Rank 0's collectives of the last step, in order.
inline std::vector<Span> collectives(const SchemeResult& result, Verb verb, bool control = false) {
  std::vector<Span> found;
  for (const Span& span : collectives_of(result, result.steps - 1))
    if (span.control == control && (control || span.verb == verb)) found.push_back(span);
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
