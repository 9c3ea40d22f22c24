// Runs of deepspeed with options by name; shared by its tests.
#pragma once
#include "systems/systems.h"

namespace shardsim::test {

inline SchemeResult run(const Scenario& s, const Words& words) { return train(s, "deepspeed", words); }

inline Words with(Words words, const Words& more) {
  for (const auto& [name, value] : more) words[name] = value;
  return words;
}

inline Words stage(int number, const Words& more = {}) { return with({{"stage", std::to_string(number)}}, more); }
inline const Words overlap{{"overlap_comm", "true"}};

}  // namespace shardsim::test
