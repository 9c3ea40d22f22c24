// Expectations: a miss is one line that names the place, the key and both values.
#include <doctest/doctest.h>

#include "app/expectations.h"
#include "app/metrics.h"
#include "app/scenario_figures.h"
#include "app/scenarios.h"

using namespace shardsim;

namespace {

std::vector<std::string> misses(const Expectation& expectation, Scenario scenario = {}) {
  scenario.file = "s.yaml", scenario.expect["dp"] = {expectation};
  return missed_expectations(scenario, {measure(scenario, test::made_by_hand("dp"))});
}

}  // namespace

TEST_CASE("what is as expected is passed over in silence") {
  CHECK(misses({"traffic", 2, 0, 7}).empty());
  CHECK(misses({"model_state_peak_bytes_per_param", 16, 0, 7}).empty());
  CHECK(misses({"step_seconds", 2.1, 0.05, 7}).empty());
  CHECK(misses({"resident_bytes", 1600, 0, 7}).empty());
}

TEST_CASE("a miss names file, line, scheme, key and both values") {
  CHECK(misses({"traffic", 3, 0, 7}) == std::vector<std::string>{"s.yaml:7: dp.traffic: expected 3, found 2"});
  CHECK(misses({"step_seconds", 3, 0.1, 8}) ==
        std::vector<std::string>{"s.yaml:8: dp.step_seconds: expected 3 within 10%, found 2"});
  CHECK(misses({"loss_first", 9, 0, 0}) == std::vector<std::string>{"--set: dp.loss_first: expected 9, found 1"});
}

TEST_CASE("exact means exact: one byte is a miss") { CHECK(misses({"resident_bytes", 1601, 0, 7}).size() == 1); }

TEST_CASE("every known key is a figure") {
  for (const std::string& key : figure_keys()) {
    INFO(key);
    const std::vector<std::string> missed = misses({key, -12345, 0, 1});
    REQUIRE(missed.size() == 1);
    CHECK(missed[0].find("nan") == std::string::npos);
  }
}

TEST_CASE("what was measured of a scheme stands beside its own figure, and may be expected") {
  const test::ScenarioFolder folder;
  const std::string told = "measured: {source: somebody, dp: {step_seconds: 1900ms, resident_bytes: 1.5KiB}}\n";
  Scenario scenario = folder.read(test::scenario_text(told + "expect: {dp: {step_seconds: {about: measured, within: 3%}}}\n"));
  CHECK(scenario.measured_source == "somebody");
  const formats::Figures figures = measure(scenario, test::made_by_hand("dp"));
  REQUIRE(figures.measured.size() == 2);
  CHECK(figures.measured[0].figure == "step_seconds");
  CHECK(figures.measured[0].here == 2);
  CHECK(figures.measured[0].measured == doctest::Approx(1.9));
  CHECK(figures.measured[1].measured == 1536);
  CHECK(missed_expectations(scenario, {figures}).size() == 1);  // 2 is 5.3 % above 1.9
  CHECK(measure(scenario, test::made_by_hand("zero3")).measured.empty());
}

TEST_CASE("measured figures are read strictly") {
  const test::ScenarioFolder folder;
  const auto refusal = [&](const std::string& text) { return folder.refusal(test::scenario_text(text)); };
  CHECK(refusal("measured: 3\n") ==
        "s.yaml:5: measured: is '3', but a map is expected; write it as {source: who measured it, zero3: {step_seconds: 360ms}}");
  CHECK(refusal("measured: {dp: {traffic: 2}}\n").find("s.yaml:5: measured: the key 'source' is missing") == 0);
  CHECK(refusal("measured: {source: somebody, dp: {speed: 2}}\n").find("s.yaml:5: measured.dp.speed: unknown key") == 0);
  CHECK(refusal("measured: {source: somebody, dp: {traffic: 2, traffic: 3}}\n") ==
        "s.yaml:5: measured.dp.traffic: is given twice, first in line 5; remove one");
  CHECK(refusal("measured: {source: somebody, ddp: {traffic: 2}}\n").find("s.yaml:5: measured.ddp: unknown key") == 0);
  CHECK(refusal("expect: {dp: {traffic: {about: measured, within: 1%}}}\n") ==
        "s.yaml:5: expect.dp.traffic.about: there is no traffic of this scheme in the block measured; write it there, "
        "or a number here");
}

TEST_CASE("theta has to be equal in all schemes if the scenario says so") {
  Scenario scenario;
  scenario.file = "s.yaml", scenario.expect_equal_theta = true;
  SchemeResult other = test::made_by_hand("zero1");
  CHECK(missed_expectations(scenario, {measure(scenario, test::made_by_hand("dp")), measure(scenario, other)}).empty());
  other.theta[7] = 0.25f;
  const auto missed = missed_expectations(scenario, {measure(scenario, test::made_by_hand("dp")), measure(scenario, other)});
  REQUIRE(missed.size() == 1);
  CHECK(missed[0].find("s.yaml: theta: expected equal, but dp has ") == 0);
  other.theta.clear();
  CHECK(missed_expectations(scenario, {measure(scenario, other)}).size() == 1);
}
