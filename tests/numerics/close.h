// What the tests of the arithmetic compare with: how near a result has to be, over which sizes and types.
#pragma once
#include <doctest/doctest.h>

#include <functional>
#include <vector>

#include "numerics/buffer.h"

namespace shardsim::numerics_tests {

constexpr std::int64_t sizes[] = {0, 1, 3, 17, 64};
constexpr Dtype types[] = {Dtype::fp32, Dtype::bf16};

/// Within a rounding of the type, or two where a sum was rounded before it was added to numbers below 1; and some of fp32, at the
/// scale of the numbers that were added.
inline void check_close(const std::vector<float>& actual, const std::vector<double>& expected, Dtype type, double scale = 1,
                        bool accumulated = false) {
  REQUIRE(actual.size() == expected.size());
  const double step = type == Dtype::fp32 ? std::ldexp(1, -24) : std::ldexp(1, -8);
  for (std::size_t i = 0; i < actual.size(); ++i) {
    CAPTURE(i);
    const double rounded = std::abs(expected[i]) + (accumulated ? std::abs(expected[i]) + 1 : 0);
    CHECK(std::abs(actual[i] - expected[i]) <= 1.01 * step * rounded + 64 * std::ldexp(1, -24) * scale);
  }
}

/// One correctly rounded operation: the bits are known.
inline void check_equal(const std::vector<float>& actual, const std::vector<double>& expected, Dtype type) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) CHECK(actual[i] == numerics::rounded(type, float(expected[i])));
}

inline void for_all(const std::function<void(Dtype, std::int64_t)>& body) {
  for (Dtype type : types)
    for (std::int64_t n : sizes) {
      CAPTURE(name_of(type));
      CAPTURE(n);
      body(type, n);
    }
}

}  // namespace shardsim::numerics_tests
