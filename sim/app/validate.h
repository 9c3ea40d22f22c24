// Validate: a table of measurements, predicted row by row, and how far off that is.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/calibrate.h"
#include "app/measurement_table.h"
#include "app/prediction.h"
#include "app/statistics.h"
#include "core/registry.h"

namespace shardsim {

/// What is known before the first prediction, and what may be fitted.
struct Protocol {
  std::string name;                                                        ///< for the printout
  std::vector<std::string> overrides;                                      ///< on every row
  std::vector<std::pair<std::string, std::vector<std::string>>> of_group;  ///< on the rows of one group
  enum class Per { nothing, table, group } calibrate_per = Per::nothing;   ///< whose marked rows share constants
  std::vector<Constant> fit = {Constant::gemm_efficiency};                 ///< of steps; a collective's are alpha and bus
  std::optional<double> max_mape;                                          ///< a share
  int first = 1, last = 1 << 30;                                           ///< rows
};

struct Validation {
  struct Row {
    const MeasuredRow* row;
    Prediction prediction;
    double error;  ///< predicted / measured - 1
  };
  struct Group {
    std::string name;
    ErrorSummary errors;
    std::string constants;  ///< "gemm_efficiency 0.78", if fitted
  };
  std::vector<Row> rows;  ///< those that count: not the calibrating ones
  std::vector<Group> groups;
  ErrorSummary overall, unflagged;  ///< all of them; those that are neither host-bound nor near the memory limit
  bool is_calibrated = false;
  Measurand measurand = Measurand::step;

  bool misses(const Protocol& protocol) const { return protocol.max_mape && overall.mape > *protocol.max_mape; }
};

/// Called with how many runs are done, and of how many.
using ValidationProgress = std::function<void(int, int)>;

/// Predicts the rows, several at a time. Rows that the table marks are calibrated from, and not counted, where the protocol
/// calibrates. Throws ScenarioError. Nothing if interrupted.
std::optional<Validation> validate(const MeasurementTable&, const Protocol&, const Registry&, const ValidationProgress& = {});

}  // namespace shardsim
