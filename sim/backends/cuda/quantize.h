// Kernels of the 8- and 4-bit numbers that travel in place of 16-bit ones: a team for each group of neighbours.
#pragma once
#include <cmath>

#include "backends/cuda/ops.h"

namespace shardsim::cuda {

/// f(i) for i < n into q and scales, in `groups` groups. Every number has its group's scale beside it, as on the host.
template <class On, class F>
void quantize(On& on, std::int64_t n, std::int64_t groups, int bits, const Numbers& q, const Numbers& scales, F f) {
  const float most = float(1 << (bits - 1));
  on.rows(groups, n / std::max<std::int64_t>(1, groups), [=] SHARDSIM_BOTH(typename On::Team team, std::int64_t group) {
    const std::int64_t begin = part_begin(group, groups, n), end = part_begin(group + 1, groups, n);
    float largest = 0;
    for (std::int64_t i = begin + team.lane(); i < end; i += team.size()) largest = fmaxf(largest, fabsf(f(i)));
    largest = team.max(largest);
    const float scale = largest > 0 ? largest / most : 1.f;
    for (std::int64_t i = begin + team.lane(); i < end; i += team.size()) {
      scales.put(i, scale);
      q.put(i, fminf(fmaxf(nearbyintf(f(i) / scale), -most), most - 1.f));
    }
  });
}

template <class On>
void perform(On& on, const Quantize& o) {
  const Numbers x = numbers(o.x);
  quantize(on, x.count, o.scales.count().charged(), o.bits, numbers(o.q), numbers(o.scales),
           [=] SHARDSIM_BOTH(std::int64_t i) { return x[i]; });
}

template <class On>
void perform(On& on, const Dequantize& o) {
  map(on, numbers(o.x), size(o.x), numbers(o.q), numbers(o.scales),
      [] SHARDSIM_BOTH(float number, float scale) { return scale * number; });
}

template <class On>
void perform(On& on, const SumQuantized& o) {
  const Numbers q = numbers(o.q), scales = numbers(o.scales);
  const std::int64_t n = size(o.sum_q);
  const int parts = o.parts;
  quantize(on, n, o.sum_scales.count().charged(), o.bits, numbers(o.sum_q), numbers(o.sum_scales),
           [=] SHARDSIM_BOTH(std::int64_t i) {
             float sum = 0;
             for (int part = 0; part < parts; ++part) sum += scales[part * n + i] * q[part * n + i];
             return sum;
           });
}

}  // namespace shardsim::cuda
