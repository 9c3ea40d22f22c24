// ResultsFolder: everything a run leaves behind, written beside its place and moved there at the end, so that nothing half-written
// is ever found.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "app/result.h"
#include "app/scenario.h"
#include "formats/summary.h"

namespace shardsim {

/// Hears, now and then while files are written: of which scheme, the how-manieth from 1, and how many bytes of its file there are.
using WriteProgress = std::function<void(const std::string& scheme, std::size_t which, double bytes)>;

class ResultsFolder {
 public:
  /// Checks, before anything is run, that `wanted` can be written: it does not exist, is empty, or holds an earlier run's results
  /// and nothing else. Throws ScenarioError. Nothing is created.
  explicit ResultsFolder(const std::filesystem::path& wanted);

  /// Writes all files and moves them into place. Throws ScenarioError (disk full, no permission); nothing is left behind then.
  void write(const Scenario&, const std::vector<SchemeResult>&, const std::vector<formats::Figures>&,
             const std::vector<std::string>& notes, const WriteProgress& progress = {}) const;

 private:
  std::filesystem::path wanted_, place_;  // as the user wrote it, and absolute
};

/// What summary.json says about the run as a whole.
formats::RunFacts facts_of(const Scenario&, const std::vector<std::string>& notes);

}  // namespace shardsim
