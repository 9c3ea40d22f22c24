// Data: rows by position, and the teacher.
#include "models/data.h"

#include <cmath>
#include <utility>

#include "models/random.h"

namespace shardsim {
namespace {

std::vector<float> uniform_theta(const std::vector<std::int64_t>& widths, const Random& random) {
  std::vector<float> theta;
  for (std::size_t layer = 0; layer + 1 < widths.size(); ++layer) {
    const float bound = std::sqrt(3.f / float(widths[layer]));
    for (std::int64_t i = 0; i < widths[layer] * widths[layer + 1]; ++i) theta.push_back(bound * random.symmetric(theta.size()));
    theta.insert(theta.end(), std::size_t(widths[layer + 1]), 0.f);
  }
  return theta;
}

/// tanh from +, *, / alone: the library's differs in the last bit between versions.
double portable_tanh(double x) {
  if (x > 20 || x < -20) return x > 0 ? 1 : -1;
  // exp(2x) = exp(2x / 1024)^1024, the small one by its series.
  const double small = 2 * x / 1024;
  double term = 1, sum = 1;
  for (int k = 1; k <= 8; ++k) sum += term = term * small / k;
  for (int k = 0; k < 10; ++k) sum *= sum;
  return (sum - 1) / (sum + 1);
}

}  // namespace

Data::Data(std::vector<float> x, std::int64_t in, std::vector<float> y, std::int64_t out)
    : x_(std::move(x)), y_(std::move(y)), in_(in), out_(out), rows_(std::int64_t(x_.size()) / in) {}

Data Data::from_teacher(const std::vector<std::int64_t>& widths, std::int64_t rows, std::uint64_t seed) {
  const std::vector<float> theta = uniform_theta(widths, Random(seed, Purpose::theta_of_teacher));
  const Random random(seed, Purpose::inputs);
  std::vector<float> x(std::size_t(rows * widths.front())), y;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = random.symmetric(i);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<double> layer_in(x.begin() + row * widths.front(), x.begin() + (row + 1) * widths.front());
    std::size_t at = 0;
    for (std::size_t layer = 0; layer + 1 < widths.size(); ++layer) {
      std::vector<double> layer_out(std::size_t(widths[layer + 1]), 0.0);
      for (double input : layer_in)
        for (double& output : layer_out) output += input * double(theta[at++]);
      at += layer_out.size();  // biases are zero
      if (layer + 2 < widths.size())
        for (double& output : layer_out) output = portable_tanh(output);
      layer_in = std::move(layer_out);
    }
    for (double output : layer_in) y.push_back(float(output));
  }
  return {std::move(x), widths.front(), std::move(y), widths.back()};
}

void Data::fill(const Place& at, std::vector<float>& x, std::vector<float>& y) const {
  x.clear(), y.clear();
  const std::int64_t first = ((at.step * at.micro_batches + at.micro_batch) * at.world + at.rank) * at.rows;
  for (std::int64_t i = 0; i < at.rows; ++i) {
    const std::int64_t row = (first + i) % rows_;
    x.insert(x.end(), x_.begin() + row * in_, x_.begin() + (row + 1) * in_);
    y.insert(y.end(), y_.begin() + row * out_, y_.begin() + (row + 1) * out_);
  }
}

std::vector<float> seeded_theta(const std::vector<std::int64_t>& widths, std::uint64_t seed) {
  return uniform_theta(widths, Random(seed, Purpose::theta_of_student));
}

}  // namespace shardsim
