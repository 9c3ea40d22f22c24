// Kernels of the 8-bit numbers that travel in place of 16-bit ones: a team for each group of neighbours.
#pragma once
#include <cmath>

#include "backends/cuda/ops.h"

namespace shardsim::cuda {

/// Real numbers have a scale each, that of their group; on the card as on the host.
template <class On>
void perform(On& on, const Quantize& o) {
  const Numbers x = numbers(o.x), q = numbers(o.q), scales = numbers(o.scales);
  const std::int64_t n = size(o.x), groups = o.scales.count().charged(), there = size(o.scales);
  on.rows(groups, [=] SHARDSIM_BOTH(typename On::Team team, std::int64_t group) {
    const std::int64_t begin = part_begin(group, groups, n), end = part_begin(group + 1, groups, n);
    float largest = 0;
    for (std::int64_t i = begin + team.lane(); i < end; i += team.size()) largest = fmaxf(largest, fabsf(x[i]));
    largest = team.max(largest);
    const float scale = largest > 0 ? largest / 128.f : 1.f;
    if (there == groups && there != n && team.lane() == 0) scales.put(group, scale);
    for (std::int64_t i = begin + team.lane(); i < end; i += team.size()) {
      if (there == n) scales.put(i, scale);
      q.put(i, fminf(fmaxf(nearbyintf(x[i] / scale), -128.f), 127.f));
    }
  });
}

template <class On>
void perform(On& on, const Dequantize& o) {
  const Numbers q = numbers(o.q), scales = numbers(o.scales), x = numbers(o.x);
  const std::int64_t n = x.count, there = scales.count, groups = o.scales.count().charged();
  if (there == n) return map(on, x, n, q, scales, [] SHARDSIM_BOTH(float number, float scale) { return scale * number; });
  on.rows(groups, [=] SHARDSIM_BOTH(typename On::Team team, std::int64_t group) {
    for (std::int64_t i = part_begin(group, groups, n) + team.lane(); i < part_begin(group + 1, groups, n); i += team.size())
      x.put(i, scales[group] * q[i]);
  });
}

}  // namespace shardsim::cuda
