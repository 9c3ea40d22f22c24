// Least errors: the unknowns at which a function of times comes closest to what was measured, within their ranges.
#pragma once
#include <functional>
#include <vector>

namespace shardsim {

struct Unknown {
  double start, low, high;
  double step;  ///< for the first difference quotient; more than 0
};

struct Fit {
  std::vector<double> values;  ///< of the unknowns
  std::vector<double> errors;  ///< f / measured - 1 at these
  double worst() const;        ///< largest absolute error
};

/// Least squares of f(values) / measured - 1, for a function that is close to linear in each unknown and has at least as many
/// results as unknowns (Gauss-Newton; a step that makes things worse is halved). Ends when the errors no longer fall.
Fit least_errors(const std::function<std::vector<double>(const std::vector<double>&)>& f, const std::vector<double>& measured,
                 const std::vector<Unknown>& unknowns);

}  // namespace shardsim
