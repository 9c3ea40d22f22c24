// Numbers whose sums have to be rounded, and those sums in the ring's order, restated in plain loops.
#pragma once
#include <cmath>
#include <vector>

#include "core/band.h"
#include "core/mesh.h"

namespace shardsim::conformance {

/// The nearest number with 8 significant bits, ties to even: bf16, restated.
inline float to_width(Dtype type, double x) {
  if (type == Dtype::fp32 || x == 0) return float(x);
  int exponent;
  const double mantissa = std::frexp(x, &exponent);
  return float(std::ldexp(std::nearbyint(std::ldexp(mantissa, 8)), exponent - 8));
}

/// Rank r's element i: values whose sums have to be rounded.
inline float value(Dtype type, int r, std::int64_t i) {
  return to_width(type, std::sin(1.0 + 3.0 * r + 0.7 * double(i)) * (1 + r));
}

inline std::vector<float> values(Dtype type, int r, std::int64_t begin, std::int64_t count) {
  std::vector<float> list;
  for (std::int64_t i = begin; i < begin + count; ++i) list.push_back(value(type, r, i));
  return list;
}

/// Elements [begin, end) of chunk c, summed over n members in the ring's order: chunk c begins at member c + 1 and ends at member
/// c, rounded at every hop.
inline std::vector<float> summed_between(Dtype type, int n, std::int64_t begin, std::int64_t end, int c) {
  std::vector<float> sums;
  for (std::int64_t i = begin; i < end; ++i) {
    float sum = value(type, (c + 1) % n, i);
    for (int hop = 2; hop <= n; ++hop) {
      const float next = value(type, (c + hop) % n, i) + sum;  // in fp32
      sum = to_width(type, next);
    }
    sums.push_back(sum);
  }
  return sums;
}

inline Group everyone(int world, int rank) { return {0, 1, world, rank}; }

}  // namespace shardsim::conformance
