// Gradients against central differences, in double precision: what an op's backward has to agree with.
#pragma once
#include <cmath>
#include <functional>
#include <vector>

#include "numerics/buffer.h"

namespace shardsim::numerics_tests {

using Bench = WorkbenchOf<double>;

inline void compute(const Op& op) { numerics::run_in<double>(op); }

/// An input and the gradient that the op's backward gave it.
struct Checked {
  Tensor x, gradient;
};
/// An output and the gradient that came from above.
struct Above {
  Tensor y, dy;
};

/// The largest error of the gradients, as a share of each gradient's largest number. `forward` makes the outputs from the inputs;
/// what is differentiated is the sum of all outputs times what comes from above.
inline double worst_gradient(const std::function<void()>& forward, const std::vector<Above>& outputs,
                             const std::vector<Checked>& inputs) {
  auto objective = [&] {
    forward();
    double sum = 0;
    for (const Above& out : outputs) {
      const auto y = Bench::values(out.y), dy = Bench::values(out.dy);
      for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
    }
    return sum;
  };
  double worst = 0;
  for (const Checked& input : inputs) {
    const std::vector<double> gradient = Bench::values(input.gradient);
    double largest = 1e-3, error = 0;
    for (double g : gradient) largest = std::max(largest, std::abs(g));
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      double& x = numerics::data<double>(input.x)[i];
      const double before = x, step = 1e-5;
      x = before + step;
      const double above = objective();
      x = before - step;
      const double below = objective();
      x = before;
      const double difference = std::abs((above - below) / (2 * step) - gradient[i]);
      error = difference > error || std::isnan(difference) ? difference : error;
    }
    worst = error / largest > worst || std::isnan(error) ? error / largest : worst;
  }
  return worst;
}

/// from (rows x cols), copied.
inline Tensor copy_of(Bench& bench, const Tensor& from) {
  const Tensor to = bench.matrix(Real::of(from.rows), Real::of(from.cols));
  compute(Copy{from, to});
  return to;
}

}  // namespace shardsim::numerics_tests
