// A good scenario for the tests to break, and results made by hand.
#pragma once
#include <string>
#include <vector>

#include "app/result.h"
#include "app/scenario.h"
#include "core/registry.h"
#include "scratch.h"

namespace shardsim::test {

/// Schemes by name that nobody runs.
Registry named_schemes();

/// A folder with good.yaml, a platform, and .npy files of the right and of wrong shapes.
class ScenarioFolder {
 public:
  ScenarioFolder();
  /// Reads `text` as a scenario of this folder.
  Scenario read(const std::string& text, const std::vector<std::string>& overrides = {}) const;
  /// The one line with which `text` is refused, without the folder; "accepted" if it is not.
  std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {}) const;
  const Scratch& folder() const { return folder_; }

 private:
  Scratch folder_;
};

/// A scenario that has only what it needs, with other lines after it.
std::string scenario_text(const std::string& more = "");

/// Two ranks, two steps of 2 s, 100 parameters of 4 + 4 + 8 bytes in one unit; each rank computes 1 s and communicates 1.5 s of
/// every step, 0.5 s of it at the same time.
SchemeResult made_by_hand(const std::string& scheme);

/// The composition with one part more.
Composition with(const Composition&, Part);

}  // namespace shardsim::test
