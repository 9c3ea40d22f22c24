// Statistics: how far predictions are from what was measured.
#pragma once
#include <vector>

namespace shardsim {

/// Of relative errors, predicted / measured - 1; all as shares of one.
struct ErrorSummary {
  int n = 0;
  double bias = 0;                                   ///< mean error: below 0, the simulator is too fast
  double mape = 0;                                   ///< mean absolute percentage error
  double median = 0, p90 = 0, worst = 0;             ///< of the absolute errors; between two of them on a straight line
  double within_3 = 0, within_5 = 0, within_10 = 0;  ///< share of the errors that are at most 3, 5, 10 %
};

/// All zero for no errors.
ErrorSummary summary_of(const std::vector<double>& errors);

/// The value below which a share of the sorted values lies: numpy's default percentile. `sorted` is not empty.
double quantile(const std::vector<double>& sorted, double share);

}  // namespace shardsim
