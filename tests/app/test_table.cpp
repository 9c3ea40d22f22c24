// The printed table: formula beside simulated, every gap explained, at most 100 columns.
#include <doctest/doctest.h>

#include <sstream>

#include "app/metrics.h"
#include "app/scenarios.h"
#include "app/table.h"

using namespace shardsim;

namespace {

std::string printed(const Scenario& scenario, const std::vector<SchemeResult>& results, bool colour = false) {
  std::vector<formats::Figures> figures;
  for (const SchemeResult& result : results) figures.push_back(measure(scenario, result));
  return table_text(scenario, results, figures, run_notes(scenario, results, figures), colour);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("numbers are printed as people read them") {
  CHECK(decimal_text(16) == "16");
  CHECK(decimal_text(3.75) == "3.75");
  CHECK(decimal_text(5.00001) == "5");
  CHECK(decimal_text(-0.0) == "0");
  CHECK(bytes_text(512) == "512 B");
  CHECK(bytes_text(1.5 * 1024 * 1024) == "1.50 MiB");
  CHECK(bytes_text(5e15) == "4547.47 TiB");
  CHECK(time_text(0) == "0 s");
  CHECK(time_text(0.0015) == "1.500 ms");
  CHECK(time_text(2.5e-6) == "2.500 us");
  CHECK(precise_text(4.000000000000002) == "4");
  CHECK(precise_text(5e-6) == "5e-06");
  CHECK(share_text(0.1234) == "+12.3 %");
  CHECK(share_text(-1e-8) == "-1e-06 %");
  for (const double rounding : {0.0, 3e-14, -3e-14, 1e-16}) CHECK(share_text(rounding) == "=");
}

TEST_CASE("formula and simulated stand side by side") {
  Scenario scenario;
  scenario.name = "by hand", scenario.world = 2;
  const std::string text = printed(scenario, {test::made_by_hand("dp")});
  CHECK(has(text, "by hand: 2 ranks (tiny), 100 parameters of 4 + 4 + 8 bytes in 1 unit"));
  CHECK(has(text, "2 | 2 "));
  CHECK(has(text, "16 | 16 "));
  CHECK(has(text, "16 = 4 param + 4 grad + 8 opt\n"));
  CHECK_FALSE(has(text, "Where simulated differs"));
}

TEST_CASE("a gap is explained by what moved and by what is held") {
  Scenario scenario;
  SchemeResult result = test::made_by_hand("zero2");
  result.shard = {Band::opt, Band::grad};
  result.ranks[0].model_state_peak = {1700, 0, test::with(result.ranks[0].resident, {Band::grad, Verb::backward, 0, 100})};
  for (Span& span : result.ranks[0].spans) span.size *= 2;
  for (RankResult& rank : result.ranks) rank.traffic_bytes *= 2, rank.unsteady.traffic_bytes *= 2;
  const std::string text = printed(scenario, {result});
  CHECK(has(text, "17 = 4 param + 4 grad + 8 opt + 1 grad of unit 0 (backward); the formula says 10"));
  CHECK(has(text, "zero2 traffic 4, formula 2: buffers moved per step, in units of the model: all_reduce 2"));
  CHECK(has(text, "zero2 resident 16, formula 10: 16 = 4 param + 4 grad + 8 opt"));
}

TEST_CASE("a gap that is only padding is told once") {
  Scenario scenario;
  SchemeResult result = test::made_by_hand("dp");
  result.padding = 4;
  for (RankResult& rank : result.ranks) {
    rank.traffic_bytes = 832, rank.unsteady.traffic_bytes = 416;
    rank.resident = {{Band::param, Verb::bind, 0, 416}, {Band::grad, Verb::bind, 0, 416}, {Band::opt, Verb::bind, 0, 832}};
    rank.model_state_peak = {1664, 0, rank.resident};
  }
  const std::string text = printed(scenario, {result});
  CHECK(has(text, "16 | 16.64"));
  CHECK(has(text, "Padding: 4 parameters (4 %), so that 2 ranks cut every unit into equal slices"));
  CHECK_FALSE(has(text, "Where simulated differs"));
}

TEST_CASE("the table says whether theta is equal, what diverged, what does not fit and which defaults were used") {
  Scenario scenario;
  scenario.defaults_used = {"streams: 2", "prefetch: 1"};
  SchemeResult a = test::made_by_hand("dp"), b = test::made_by_hand("zero1");
  CHECK(has(printed(scenario, {a, b}), "the same bits in dp, zero1."));
  CHECK(has(printed(scenario, {a, b}), "Defaults used: streams: 2; prefetch: 1."));
  b.theta[0] = 1.f;
  CHECK(has(printed(scenario, {a, b}), "theta differs: "));
  b.ranks[0].losses[1] = 1.f / 0.f;
  CHECK(has(printed(scenario, {a, b}), "zero1 diverged: its loss is not finite from step 1 on."));
  b.gpu.memory_bytes = 1024;
  CHECK(has(printed(scenario, {a, b}), "zero1 does not fit: its peak of 1.66 KiB is more than the 1.00 KiB of a tiny."));
  b.gpu.memory_bytes = 4096, b.gpu.host_memory = 2000;
  b.ranks[0].host_peak = {3000, 0, {{Band::opt, Verb::bind, 0, 2900}, {Band::param, Verb::bind, 0, 100}}};
  CHECK(has(printed(scenario, {a, b}), "zero1 does not fit: its peak of 2.93 KiB in the host's memory is more than"));
  b.gpu.host_memory = 3000;
  CHECK_FALSE(has(printed(scenario, {a, b}), "does not fit"));
  b.interrupted = true;
  CHECK(has(printed(scenario, {a, b}), "zero1 was interrupted after 2 steps."));
}

TEST_CASE("what was measured has its own lines, with the error") {
  Scenario scenario;
  scenario.measured["dp"] = {{"step_seconds", 1.9, 0, 1}, {"peak_bytes", 1701, 0, 1}, {"traffic", 2, 0, 1}};
  scenario.measured_source = "somebody, somewhere";
  const std::string text = printed(scenario, {test::made_by_hand("dp")});
  CHECK(has(text, "dp      step_seconds                          2.000 s     1.900 s   +5.3 %\n"));
  CHECK(has(text, "dp      peak_bytes                           1.66 KiB    1.66 KiB        =\n"));
  CHECK(has(text, "dp      traffic                                     2           2        =\n"));
  CHECK(has(text, "Measured: somebody, somewhere\n"));
  CHECK(change_text(10001, 10000) == "+0.01 %");
  CHECK(change_text(1, 0).empty());
}

TEST_CASE("without numerics there is a dash for the loss and no theta") {
  Scenario scenario;
  scenario.numerics = Numerics::off;
  SchemeResult result = test::made_by_hand("dp");
  result.theta.clear();
  for (RankResult& rank : result.ranks) rank.losses.clear();
  CHECK(has(printed(scenario, {result}), "theta: none, numerics are off."));
}

TEST_CASE("the table is at most 100 columns wide and coloured only when asked") {
  Scenario scenario;
  scenario.name = std::string(60, 'n') + " " + std::string(60, 'm');
  for (int i = 0; i < 40; ++i) scenario.defaults_used.push_back("some.key" + std::to_string(i) + ": value");
  SchemeResult result = test::made_by_hand("zero3_keep");
  Peak& peak = result.ranks[0].model_state_peak;
  for (int unit = 0; unit < 9; ++unit) peak.parts = test::with(peak.parts, {Band::gathered, Verb::all_gather, unit, 1});
  peak.bytes += 9;
  result.unit_parameters.assign(9, 11);
  const std::string text = printed(scenario, {result, result});
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(line.size() <= 100, line);
  CHECK(has(text, "gathered of 9 of 9 units (all_gather)"));
  CHECK_FALSE(has(text, "\033"));
  CHECK(has(printed(scenario, {result}, true), "\033[1m"));
}

TEST_CASE("a run in which nothing was finished prints no table") { CHECK(printed({}, {}) == "No scheme has finished a step.\n"); }
