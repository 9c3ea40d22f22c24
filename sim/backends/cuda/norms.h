// Kernels of LayerNorm and RMSNorm: a team for each row; gain and bias get their gradients in two steps.
#pragma once
#include "backends/cuda/ops.h"

namespace shardsim::cuda {

template <class On>
void perform(On& on, const Norm& o) {
  const Numbers xs = numbers(o.x), gain = numbers(o.gain), bias = numbers(o.bias), ys = numbers(o.y), stats = numbers(o.stats);
  const std::int64_t rows = real(o.x.rows), d = real(o.x.cols);
  const bool centred = bool(o.bias);
  const float eps = o.eps;
  on.rows(rows, d, [=] SHARDSIM_BOTH(typename On::Team team, std::int64_t row) {
    const Numbers x = xs.from(row * d), y = ys.from(row * d);
    const float mean = centred ? sum_of_row(team, d, x) / float(d) : 0.f;
    const auto off = [=](std::int64_t, float each) { return (each - mean) * (each - mean); };
    const float square = sum_of_row(team, d, off, x);
    const float inverse = 1.f / sqrtf(square / float(d) + eps);
    if (team.lane() == 0) {
      if (centred) stats.put(2 * row, mean);
      stats.put(centred ? 2 * row + 1 : row, inverse);
    }
    const auto sized = [=](std::int64_t, float each, float by) { return (each - mean) * inverse * by; };
    const auto shifted = [=](std::int64_t j, float each, float by, float shift) { return sized(j, each, by) + shift; };
    if (centred) write_row(team, y, d, shifted, x, gain, bias);
    else write_row(team, y, d, sized, x, gain);
  });
}

/// A row's mean and 1 / size, from what the forward pass kept.
struct NormStats {
  Numbers stats;
  bool centred;
  SHARDSIM_BOTH float mean(std::int64_t row) const { return centred ? stats[2 * row] : 0.f; }
  SHARDSIM_BOTH float inverse(std::int64_t row) const { return stats[centred ? 2 * row + 1 : row]; }
};

/// With n = (x - mean) / size and g = dy gain: dx = (g - [mean of g] - n mean of g n) / size; a mean is taken off only if x's was.
template <class On>
void perform(On& on, const NormBackward& o) {
  const Numbers xs = numbers(o.x), gain = numbers(o.gain), dys = numbers(o.dy), dxs = numbers(o.dx);
  const std::int64_t rows = real(o.x.rows), d = real(o.x.cols);
  const bool centred = bool(o.dbias);
  const NormStats stats{numbers(o.stats), centred};
  // Before dx is written: it may be dy.
  sum_terms(on, numbers(o.dgain), d, rows, o.accumulate, [=] SHARDSIM_BOTH(std::int64_t row, std::int64_t p) {
    const float mean = stats.mean(row), inverse = stats.inverse(row);
    Pack dy = load(dys.from(row * d), p, d);
    const Pack x = load(xs.from(row * d), p, d);
    for (int i = 0; i < Pack::size; ++i) dy.x[i] *= (x.x[i] - mean) * inverse;
    return dy;
  });
  if (centred)
    sum_terms(on, numbers(o.dbias), d, rows, o.accumulate,
              [=] SHARDSIM_BOTH(std::int64_t row, std::int64_t p) { return load(dys.from(row * d), p, d); });
  on.rows(rows, d, [=] SHARDSIM_BOTH(typename On::Team team, std::int64_t row) {
    const Numbers x = xs.from(row * d), dy = dys.from(row * d);
    const float mean = stats.mean(row), inverse = stats.inverse(row);
    const auto sized = [=](float each) { return (each - mean) * inverse; };
    const auto leaning = [=](std::int64_t, float each, float slope, float by) { return slope * by * sized(each); };
    const auto shifting = [](std::int64_t, float slope, float by) { return slope * by; };
    const float lean = sum_of_row(team, d, leaning, x, dy, gain) / float(d);
    const float shift = centred ? sum_of_row(team, d, shifting, dy, gain) / float(d) : 0.f;
    const auto slope_of = [=](std::int64_t, float each, float slope, float by) {
      return inverse * (slope * by - shift - sized(each) * lean);
    };
    write_row(team, dxs.from(row * d), d, slope_of, x, dy, gain);
  });
}

}  // namespace shardsim::cuda
