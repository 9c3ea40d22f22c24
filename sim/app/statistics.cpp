// Statistics: means and quantiles of errors.
#include "app/statistics.h"

#include <algorithm>
#include <cmath>

namespace shardsim {

double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * double(sorted.size() - 1);
  const std::size_t below = std::size_t(at), above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - double(below)) * (sorted[above] - sorted[below]);
}

ErrorSummary summary_of(const std::vector<double>& errors) {
  ErrorSummary summary;
  if (errors.empty()) return summary;
  summary.n = int(errors.size());
  std::vector<double> sizes;
  for (const double error : errors) {
    summary.bias += error / summary.n;
    sizes.push_back(std::abs(error));
  }
  std::sort(sizes.begin(), sizes.end());
  const auto within = [&sizes](double limit) {
    return double(std::upper_bound(sizes.begin(), sizes.end(), limit) - sizes.begin()) / double(sizes.size());
  };
  for (const double size : sizes) summary.mape += size / summary.n;
  summary.median = quantile(sizes, 0.5), summary.p90 = quantile(sizes, 0.9), summary.worst = sizes.back();
  summary.within_3 = within(0.03), summary.within_5 = within(0.05), summary.within_10 = within(0.1);
  return summary;
}

}  // namespace shardsim
