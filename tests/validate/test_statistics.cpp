// Statistics of errors, by hand; and the search for the least ones.
#include <doctest/doctest.h>

#include <cmath>

#include "app/least_errors.h"
#include "app/statistics.h"

using namespace shardsim;

TEST_CASE("the statistics of five errors are those that a hand computes") {
  const ErrorSummary s = summary_of({0.02, -0.04, 0.06, -0.12, 0.03});
  CHECK(s.n == 5);
  CHECK(s.bias == doctest::Approx(-0.01));
  CHECK(s.mape == doctest::Approx(0.054));
  CHECK(s.median == doctest::Approx(0.04));
  CHECK(s.p90 == doctest::Approx(0.06 + 0.6 * 0.06));  // at 3.6 of 0 .. 4: between 0.06 and 0.12
  CHECK(s.worst == doctest::Approx(0.12));
  CHECK(s.within_3 == doctest::Approx(0.4));  // 3 % itself counts
  CHECK(s.within_5 == doctest::Approx(0.6));
  CHECK(s.within_10 == doctest::Approx(0.8));
}

TEST_CASE("no errors have no statistics, and one error is its own quantile") {
  CHECK(summary_of({}).n == 0);
  CHECK(summary_of({}).mape == 0);
  CHECK(quantile({7}, 0.9) == 7);
  CHECK(quantile({1, 2}, 0.5) == doctest::Approx(1.5));
}

TEST_CASE("two unknowns are found in a step time that is the larger of compute and communication") {
  const auto times = [](const std::vector<double>& at) {
    return std::vector<double>{std::max(3 * at[0], 2.0) + 1 * at[1], std::max(1 * at[0], 0.5) + 4 * at[1]};
  };
  const Fit fit = least_errors(times, times({1.5, 0.25}), {{4, 0.1, 10, 0.1}, {1, 0.01, 5, 0.1}});
  CHECK(fit.worst() < 1e-6);
  CHECK(fit.values[0] == doctest::Approx(1.5));
  CHECK(fit.values[1] == doctest::Approx(0.25));
}

TEST_CASE("an unknown that would leave its range stays at the end of it, and says how wrong that is") {
  const Fit fit =
      least_errors([](const std::vector<double>& at) { return std::vector<double>{1 + at[0]}; }, {1.25}, {{3, 0.5, 10, 0.1}});
  CHECK(fit.values[0] == doctest::Approx(0.5));
  CHECK(fit.errors[0] == doctest::Approx(1.5 / 1.25 - 1));
}

TEST_CASE("more rows than unknowns are fitted by least squares of relative errors") {
  const auto times = [](const std::vector<double>& at) { return std::vector<double>{at[0], 2 * at[0], 4 * at[0]}; };
  const Fit fit = least_errors(times, {1.0, 2.2, 3.8}, {{3, 0.1, 10, 0.1}});
  const double a = 1, b = 2 / 2.2, c = 4 / 3.8;  // minimum of (a x - 1)^2 + (b x - 1)^2 + (c x - 1)^2
  CHECK(fit.values[0] == doctest::Approx((a + b + c) / (a * a + b * b + c * c)).epsilon(1e-4));
}
