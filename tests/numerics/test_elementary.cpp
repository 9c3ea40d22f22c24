// The exponential against the library's in double precision, over all of its range.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "numerics/elementary.h"

using namespace shardsim;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// How far a float is from the true value, in units of the last place of the true value.
double units_off(float actual, double expected) {
  const int exponent = std::max(std::ilogb(expected), -126);
  return std::abs(double(actual) - expected) / std::ldexp(1, exponent - 23);
}

}  // namespace

TEST_CASE("the exponential is within two units in the last place, denormals included") {
  double worst = 0;
  for (std::uint32_t bits = 0; bits < 0x42b17218; bits += 997)  // up to the last x below 88.72, whose e^x is finite
    for (std::uint32_t sign : {0u, 0x80000000u}) {
      const float x = std::bit_cast<float>(bits | sign);
      worst = std::max(worst, units_off(numerics::exp(x), std::exp(double(x))));
    }
  for (float x = -104; x < -87; x += 0.001f) worst = std::max(worst, units_off(numerics::exp(x), std::exp(double(x))));
  CHECK(worst < 2);
}

TEST_CASE("the exponential of 0, of infinities, of NaN and of what is too large or too small") {
  CHECK(numerics::exp(0.f) == 1.f);
  CHECK(numerics::exp(-0.f) == 1.f);
  CHECK(numerics::exp(infinity) == infinity);
  CHECK(numerics::exp(-infinity) == 0.f);
  CHECK(numerics::exp(88.8f) == infinity);
  CHECK(numerics::exp(std::numeric_limits<float>::max()) == infinity);
  CHECK(numerics::exp(-104.f) == 0.f);
  CHECK(numerics::exp(std::numeric_limits<float>::lowest()) == 0.f);
  CHECK(std::isnan(numerics::exp(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("the logistic function keeps its digits at both ends") {
  for (float x = -80; x < 80; x += 0.37f)
    CHECK(std::abs(numerics::sigmoid(x) * (1 + std::exp(-double(x))) - 1) < 4 * std::ldexp(1, -23));
  CHECK(numerics::sigmoid(-infinity) == 0.f);
  CHECK(numerics::sigmoid(infinity) == 1.f);
}
