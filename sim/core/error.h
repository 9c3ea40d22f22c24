// The two kinds of error that are not ours: a scheme whose program is illegal, and a user's file that is wrong.
#pragma once
#include <stdexcept>
#include <string>

namespace shardsim {

/// A scheme's program is illegal (exit code 3). The message names scheme, verb, unit and remedy.
struct IllegalStep : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A user's file is wrong (exit code 2). The message names file, line, key and remedy.
struct ScenarioError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace shardsim
