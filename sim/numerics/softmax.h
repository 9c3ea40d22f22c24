// What softmaxes and losses share: a row's largest number, and the logarithm of its sum of exponentials.
#pragma once
#include <cmath>
#include <limits>

#include "numerics/arithmetic.h"
#include "numerics/elementary.h"

namespace shardsim::numerics {

/// The largest f(i) over i < n, minus infinity of none; passes over NaN.
template <class Scalar, class F>
Scalar largest(std::int64_t n, F f) {
  return reduced(n, -std::numeric_limits<Scalar>::infinity(), f, [](auto a, auto b) { return b > a ? b : a; });
}

/// log(sum of e^x) = top + log, with top the largest x: e^(x - top) cannot overflow, and (x - top) - log keeps its digits.
template <class Scalar>
struct LogSum {
  Scalar top, log;
};
template <class Scalar>
LogSum<Scalar> log_sum(const Scalar* x, std::int64_t n) {
  const Scalar top = largest<Scalar>(n, [=](std::int64_t j) { return x[j]; });
  return {top, std::log(sum<Scalar>(n, [=](std::int64_t j) { return exp(x[j] - top); }))};
}

}  // namespace shardsim::numerics
