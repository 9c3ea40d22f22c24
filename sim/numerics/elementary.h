// Elementary functions as plain arithmetic without a branch: loops over them become vector code, and bits depend on no library.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace shardsim::numerics {

/// e^x within 2 units in the last place; denormals, 0 and infinity where they belong; NaN stays NaN. x = n ln 2 + r with
/// |r| <= ln 2 / 2 (Cody and Waite's reduction in two parts), e^r by its Taylor polynomial, 2^n by its bits, in two halves, since n
/// may leave the range of exponents. std::fma rounds once on every machine, in one instruction on most.
inline float exp(float x) {
  x = x < -104.f ? -104.f : x;         // e^-104 rounds to 0
  x = x > 89.f ? 89.f : x;             // e^89 is infinite
  constexpr float shift = 12582912.f;  // 1.5 * 2^23: adding it rounds to a whole number, which then stands in the low bits
  const float shifted = std::fma(x, 1.44269504f, shift);
  const float n = shifted - shift;
  const float r = std::fma(n, 2.12194440e-4f, std::fma(n, -0.693359375f, x));
  float p = std::fma(r, 1.f / 5040, 1.f / 720);
  p = std::fma(p, r, 1.f / 120);
  p = std::fma(p, r, 1.f / 24);
  p = std::fma(p, r, 1.f / 6);
  p = std::fma(p, r, 0.5f);
  p = std::fma(p, r * r, r) + 1.f;
  const std::int32_t exponent = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(shift);
  const std::int32_t half = exponent >> 1, rest = exponent - half;
  const auto power = [](std::int32_t k) { return std::bit_cast<float>(std::uint32_t(k + 127) << 23); };
  return p * power(half) * power(rest);
}
inline double exp(double x) { return std::exp(x); }

/// 1 / (1 + e^-x), without cancellation at either end.
template <class Scalar>
Scalar sigmoid(Scalar x) {
  return Scalar(1) / (Scalar(1) + exp(-x));
}

}  // namespace shardsim::numerics
