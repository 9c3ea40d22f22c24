// The plan of a sweep: which runs its grid asks for, each checked before anything runs and known by a key of all that decides it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "app/sweep_grid.h"
#include "core/registry.h"

namespace shardsim {

struct SweepRequest {
  std::filesystem::path scenario;
  std::vector<std::string> overrides;            ///< of --set, on every point
  std::vector<std::string> axes;                 ///< of --grid
  std::vector<std::filesystem::path> libraries;  ///< schemes loaded with --plugin
  int most = 10'000;                             ///< points
};

/// One scheme of one point.
struct SweepRun {
  std::size_t point = 0;
  std::string scheme;     ///< label; empty where the scenario is refused
  std::string refusal;    ///< why this point's scenario is refused although each of its values is fine elsewhere
  std::uint64_t key = 0;  ///< a hash of the scenario with the point's values, of the files it names, and of this program
};

struct SweepPlan {
  std::filesystem::path file;
  YamlNode base;  ///< as the file was when the sweep began, with the overrides of --set
  SweepGrid grid;
  std::vector<SweepRun> runs;  ///< by point, then as the scenario lists the schemes

  /// The base with the point's values.
  YamlNode tree(std::size_t point) const;
};

/// Reads the scenario once for each point. Throws ScenarioError, one line: a grid of no or of too many points, an unknown key, a
/// value that is refused whatever the other keys are.
SweepPlan make_plan(const SweepRequest&, const Registry&);

}  // namespace shardsim
