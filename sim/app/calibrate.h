// Calibrate: constants of a GPU and its software from one or a few measured rows, by running the simulator until it reproduces
// them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "app/measurement_table.h"
#include "core/registry.h"

namespace shardsim {

/// What rows can be solved for. gemm_efficiency: the sustained share of the peak. attention_flops: of both head sizes, in their
/// given ratio; needs rows of different sequence length. launch_seconds: what a kernel costs the host; needs rows of different
/// size, one of them small.
enum class Constant { gemm_efficiency, attention_flops, launch_seconds };
std::optional<Constant> find_constant(const std::string& name);
Constant constant_of(const std::string& name);  ///< throws ScenarioError: unknown
std::vector<std::string> constant_names();
const char* name_of(Constant);

/// A constant as a file of prices says it: six digits.
std::string price_text(double value);

struct Calibration {
  struct Value {
    std::string key, text;  ///< of `prices`: "gemm_efficiency", "0.7812"
  };
  std::vector<Value> values;
  std::vector<double> errors;  ///< of the rows it was made from, predicted / measured - 1

  /// "prices.calibrated.gemm_efficiency=0.7812", ...
  std::vector<std::string> overrides() const;
};

/// Solves for the constants. Refuses with a ScenarioError: no rows; fewer rows than constants; rows of different GPUs; rows that
/// contradict each other: each alone would need a gemm_efficiency that differs by more than 20 % from another's, or as many rows as
/// constants are not reproduced to 0.5 %; a row that is faster than the highest efficiency allows, or slower than the lowest.
/// `more` overrides the rows.
Calibration calibrate(const MeasurementTable&, const std::vector<int>& rows, const std::vector<Constant>&,
                      const std::vector<std::string>& more, const Registry&);

/// The numbers of the rows that the table marks for one of these constants, or for any.
std::vector<int> marked_rows(const MeasurementTable&, const std::vector<Constant>&);

/// Latency and bus bandwidth of the table's collective, through the measured rows: "collectives.alpha.all_reduce", ...
Calibration calibrate_collective(const MeasurementTable&, const std::vector<int>& rows, const std::vector<std::string>& more,
                                 const Registry&);

}  // namespace shardsim
