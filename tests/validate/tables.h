// Tables of measurements in a folder of their own: small ones that the simulator itself has filled.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "app/calibrate.h"
#include "app/measurement_table.h"
#include "core/registry.h"
#include "scratch.h"

namespace shardsim::test {

class TableFolder {
 public:
  /// base.yaml: a GPT-2 of two small blocks under zero3 on two H100s, cost only.
  TableFolder();
  /// Writes `text` as base.csv and reads it.
  MeasurementTable read(const std::string& text) const;
  /// The one line with which `text` is refused, without the folder; "accepted" if it is not.
  std::string refusal(const std::string& text) const;
  /// What the simulator says about each row, with more overrides: seconds.
  std::vector<double> predicted(const std::string& text, const std::vector<std::string>& more) const;
  /// The table with these seconds in the column `?`.
  static std::string filled(std::string text, const std::vector<double>& seconds);
  const Scratch& folder() const { return folder_; }
  const Registry& registry() const { return registry_; }

 private:
  Scratch folder_;
  Registry registry_ = built_in_schemes();
};

/// What was found for a price; NaN if it was not looked for.
double value_of(const Calibration&, const std::string& key);

/// The message of a ScenarioError that f throws, without the folder; "accepted" if there is none.
std::string refusal_of(const TableFolder&, const std::function<void()>& f);

}  // namespace shardsim::test
