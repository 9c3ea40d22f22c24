// Kernels of LayerNorm and RMSNorm: a team for each row; gain and bias get their gradients in two steps.
#pragma once
#include <cmath>

#include "backends/cuda/ops.h"

namespace shardsim::cuda {

template <class On>
void perform(On& on, const Norm& o) {
  const Numbers xs = numbers(o.x), gain = numbers(o.gain), bias = numbers(o.bias), ys = numbers(o.y), stats = numbers(o.stats);
  const std::int64_t rows = real(o.x.rows), d = real(o.x.cols);
  const bool centred = bool(o.bias);
  const float eps = o.eps;
  on.rows(rows, [=] SHARDSIM_BOTH(typename On::Team team, std::int64_t row) {
    const Numbers x = xs.from(row * d), y = ys.from(row * d);
    float mean = 0, square = 0;
    if (centred) {
      for (std::int64_t j = team.lane(); j < d; j += team.size()) mean += x[j];
      mean = team.sum(mean) / float(d);
    }
    for (std::int64_t j = team.lane(); j < d; j += team.size()) square += (x[j] - mean) * (x[j] - mean);
    const float inverse = 1.f / sqrtf(team.sum(square) / float(d) + eps);
    if (team.lane() == 0) {
      if (centred) stats.put(2 * row, mean);
      stats.put(centred ? 2 * row + 1 : row, inverse);
    }
    for (std::int64_t j = team.lane(); j < d; j += team.size())
      y.put(j, (x[j] - mean) * inverse * gain[j] + (centred ? bias[j] : 0.f));
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
  const Numbers x = numbers(o.x), gain = numbers(o.gain), dy = numbers(o.dy), dx = numbers(o.dx);
  const std::int64_t rows = real(o.x.rows), d = real(o.x.cols);
  const bool centred = bool(o.dbias);
  const NormStats stats{numbers(o.stats), centred};
  // Before dx is written: it may be dy.
  sum_terms(on, numbers(o.dgain), d, rows, o.accumulate, [=] SHARDSIM_BOTH(std::int64_t row, std::int64_t j) {
    return dy[row * d + j] * ((x[row * d + j] - stats.mean(row)) * stats.inverse(row));
  });
  if (centred)
    sum_terms(on, numbers(o.dbias), d, rows, o.accumulate,
              [=] SHARDSIM_BOTH(std::int64_t row, std::int64_t j) { return dy[row * d + j]; });
  on.rows(rows, [=] SHARDSIM_BOTH(typename On::Team team, std::int64_t row) {
    const float mean = stats.mean(row), inverse = stats.inverse(row);
    float lean = 0, shift = 0;
    for (std::int64_t j = team.lane(); j < d; j += team.size()) {
      const float g = dy[row * d + j] * gain[j];
      lean += g * ((x[row * d + j] - mean) * inverse);
      shift += g;
    }
    lean = team.sum(lean) / float(d);
    shift = centred ? team.sum(shift) / float(d) : 0.f;
    for (std::int64_t j = team.lane(); j < d; j += team.size()) {
      const std::int64_t at = row * d + j;
      dx.put(at, inverse * (dy[at] * gain[j] - shift - (x[at] - mean) * inverse * lean));
    }
  });
}

}  // namespace shardsim::cuda
