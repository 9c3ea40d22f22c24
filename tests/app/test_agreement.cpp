// A simulated run beside a measured one: which figures are compared, what contradicts, what cannot be compared.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "app/agreement.h"
#include "app/metrics.h"
#include "app/results_folder.h"
#include "app/scenarios.h"
#include "core/error.h"

using namespace shardsim;
using nlohmann::ordered_json;

namespace {

/// What is changed in a run made by hand, before it is written.
using Change = std::function<void(SchemeResult&)>;

void write_run(const std::filesystem::path& place, const Change& change = {}, const std::string& text = "world: 2\n",
               const std::string& scheme = "dp") {
  Scenario scenario;
  scenario.file = "/somewhere/s.yaml", scenario.name = "s", scenario.text = text;
  SchemeResult result = test::made_by_hand(scheme);
  if (change) change(result);
  const std::vector<formats::Figures> figures{measure(scenario, result)};
  ResultsFolder(place).write(scenario, {result}, figures, {});
}

ordered_json row(const ordered_json& compared, const std::string& part, const std::string& figure) {
  for (const ordered_json& row : compared["schemes"][0]["rows"])
    if (row["part"] == part && row["figure"] == figure) return row;
  FAIL("no row '" << figure << "' in the part '" << part << "'");
  return {};
}

/// Measured: a quarter of a second more in every operation and step, a loss a tenth higher, other parameters.
void slower(SchemeResult& result) {
  result.backend = "threads";
  for (RankResult& rank : result.ranks) {
    for (Span& span : rank.spans)
      if (span.op != Span::collective) span.end += 0.25;
    rank.step_end.back() += 0.5;
    for (float& loss : rank.losses) loss *= 1.1f;
  }
  for (float& x : result.theta) x = 0.4f;
}

}  // namespace

TEST_CASE("a run agrees with itself in every figure") {
  const test::Scratch scratch;
  write_run(scratch / "a");
  const ordered_json compared = agreement(scratch / "a", scratch / "a");
  REQUIRE(compared["schemes"].size() == 1);
  CHECK(compared["schemes"][0]["rows"].size() > 15);
  for (const ordered_json& row : compared["schemes"][0]["rows"]) {
    CAPTURE(row.dump());
    if (row["unit"] == "share") CHECK(row["predicted"] == 0);
    else CHECK((row["predicted"] == row["measured"] && row["error"] == 0));
  }
  CHECK(compared["changed"].empty());
  CHECK(disagreements(compared, 0.0) == "");
}

TEST_CASE("a prediction's errors are shares of what was measured") {
  const test::Scratch scratch;
  write_run(scratch / "sim"), write_run(scratch / "real", slower, "world: 2\nbackend: threads\n");
  const ordered_json compared = agreement(scratch / "sim", scratch / "real");
  CHECK(compared["schemes"][0]["backends"] == ordered_json({"simgrid", "threads"}));
  CHECK(compared["changed"].empty());                                                      // the backend is what is compared
  CHECK(row(compared, "time per step", "step")["error"] == doctest::Approx(2 / 2.5 - 1));  // of the second step
  CHECK(row(compared, "time per step", "compute")["error"] == doctest::Approx(1 / 1.25 - 1));
  CHECK(row(compared, "operations of the last step", "forward")["measured"] == 1.25);
  CHECK(row(compared, "time in collectives per step", "all_reduce")["predicted"] == 1.5);
  CHECK(row(compared, "sent per step", "of the rank that sends most")["error"] == 0);
  CHECK(row(compared, "memory", "  opt")["measured"] == 800);
  CHECK(row(compared, "loss", "largest relative difference of a step")["predicted"] == doctest::Approx(1 - 1 / 1.1));
  CHECK(row(compared, "loss", "relative distance of theta")["predicted"] == doctest::Approx(0.25));
  CHECK(disagreements(compared, {}) == "");
  CHECK(disagreements(compared, 0.21) == "");
  CHECK(disagreements(compared, 0.1) == "dp: the step's error is -20.0 %, more than the 10.0 % allowed\n");
  const std::string text = agreement_text(compared);
  CHECK(text.find("predicted       measured          error") != std::string::npos);
  CHECK(text.find("2.000 s        2.500 s        -20.0 %") != std::string::npos);
}

TEST_CASE("a first step that is a hundred times longer changes no time that is compared") {
  const test::Scratch scratch;
  write_run(scratch / "sim");
  write_run(scratch / "real", [](SchemeResult& result) {
    for (RankResult& rank : result.ranks) {
      rank.step_begin = {0, 200}, rank.step_end = {200, 202};
      for (Span& span : rank.spans) {
        if (span.begin < 2) span.end = 100 * span.end;
        else span.begin += 198, span.end += 198;
      }
    }
  });
  const ordered_json compared = agreement(scratch / "sim", scratch / "real");
  CHECK(compared["schemes"][0]["steady_steps"] == ordered_json({{"predicted", {2, 2}}, {"measured", {2, 2}}}));
  int times = 0;
  for (const ordered_json& row : compared["schemes"][0]["rows"]) {
    CAPTURE(row.dump());
    if (row["unit"] != "seconds") continue;
    CHECK(row["error"] == 0);
    ++times;
  }
  CHECK(times >= 6);
  CHECK(disagreements(compared, 0.0) == "");
  CHECK(agreement_text(compared).find("\n time per step (2)\n") != std::string::npos);
}

TEST_CASE("of a run of one step that one is compared, and runs of other lengths say which steps") {
  const test::Scratch scratch;
  write_run(scratch / "sim");
  write_run(scratch / "real", [](SchemeResult& result) {
    result.steps = 1, result.first_steady = 0;
    for (RankResult& rank : result.ranks) {
      rank.step_begin.pop_back(), rank.step_end.pop_back(), rank.losses.pop_back();
      rank.spans.resize(2);
      rank.traffic_bytes /= 2, rank.control_bytes /= 2, rank.unsteady = {};
    }
  });
  const ordered_json compared = agreement(scratch / "sim", scratch / "real");
  CHECK(row(compared, "time per step", "step")["error"] == 0);
  CHECK(row(compared, "time in collectives per step", "all_reduce")["error"] == 0);
  CHECK(verdict_text(compared).find("; steady step (2, measured 1) =;") != std::string::npos);
  CHECK(verdict_text(agreement(scratch / "real", scratch / "real")).find("; step =;") != std::string::npos);
}

TEST_CASE("bytes and collectives that no machine changes contradict each other") {
  const test::Scratch scratch;
  write_run(scratch / "sim");
  write_run(scratch / "real", [](SchemeResult& result) {
    for (RankResult& rank : result.ranks) {
      rank.traffic_bytes += 2;
      rank.spans.push_back({3.6, 3.8, 2, 2, 0, Lane::gather, Verb::all_gather, Span::collective, false});
      rank.spans.back().moves = Verb::all_gather;
    }
  });
  CHECK(disagreements(agreement(scratch / "sim", scratch / "real"), {}) ==
        "dp: collectives per step, all_gather: predicted 0, measured 0.5 count\n"
        "dp: sent per step, of the rank that sends most: predicted 400, measured 402 bytes\n"
        "dp: sent per step, all_gather: predicted 0, measured 1 bytes\n");
}

TEST_CASE("runs of other worlds, models or schemes are not compared") {
  const test::Scratch scratch;
  write_run(scratch / "dp");
  write_run(scratch / "zero3", {}, "world: 2\n", "zero3");
  write_run(scratch / "larger", [](SchemeResult& result) { result.parameters = 200, result.unit_parameters = {200}; });
  CHECK_THROWS_WITH_AS(agreement(scratch / "dp", scratch / "zero3"), doctest::Contains("has no scheme in common"), ScenarioError);
  CHECK_THROWS_WITH_AS(agreement(scratch / "dp", scratch / "larger"), doctest::Contains("parameters is 200 here and 100 in"),
                       ScenarioError);
  CHECK_THROWS_AS(agreement(scratch / "dp", scratch / "nowhere"), ScenarioError);
}

TEST_CASE("what only one of the runs has is said, and a figure that every run has may not be missing") {
  const test::Scratch scratch;
  write_run(scratch / "sim"), write_run(scratch / "real", slower);
  const ordered_json whole = agreement(scratch / "sim", scratch / "real");
  CHECK(whole["schemes"][0]["uncompared"].empty());
  const ordered_json summary = ordered_json::parse(scratch.read("real/summary.json"));
  int said = 0, refused = 0;
  for (const auto& [key, value] : summary["results"][0].items()) {
    if (!value.is_number()) continue;
    CAPTURE(key);
    ordered_json damaged = summary;
    damaged["results"][0][key] = nullptr;
    scratch.write("real/summary.json", damaged.dump());
    try {
      const ordered_json compared = agreement(scratch / "sim", scratch / "real");
      if (compared["schemes"][0]["rows"] == whole["schemes"][0]["rows"]) continue;  // not a figure that is compared
      REQUIRE(compared["schemes"][0]["uncompared"].size() == 1);
      const std::string lacked = compared["schemes"][0]["uncompared"][0], of = key.starts_with("loss") ? "loss, " : "";
      CHECK_MESSAGE(lacked.starts_with(of), lacked);
      CHECK(lacked.find(", ") < lacked.find(" (was not measured)"));  // which part's figure it is
      ++said;
    } catch (const ScenarioError& error) {
      CHECK(std::string(error.what()).find("real/summary.json: results[0]." + key + " is no number; run the scenario again") !=
            std::string::npos);
      ++refused;
    }
  }
  CHECK(said >= 2);  // the losses
  CHECK(refused > 10);
  scratch.write("real/summary.json", summary.dump());

  std::filesystem::remove(scratch / "real/dp/theta_final.npy");
  const ordered_json without_theta = agreement(scratch / "sim", scratch / "real");
  CHECK(without_theta["schemes"][0]["uncompared"] ==
        ordered_json({"relative distance of theta (the measured run has no theta_final.npy)"}));
  CHECK(verdict_text(without_theta).find("Not compared: relative distance of theta (") != std::string::npos);
  std::filesystem::remove(scratch / "real/scenario.yaml");
  CHECK_THROWS_WITH_AS(agreement(scratch / "sim", scratch / "real"), doctest::Contains("real/scenario.yaml: there is no such file"),
                       ScenarioError);
}

TEST_CASE("the verdict says of each scheme how much was compared with what, and how it came out") {
  const test::Scratch scratch;
  write_run(scratch / "sim"), write_run(scratch / "real", slower);
  CHECK(verdict_text(agreement(scratch / "sim", scratch / "real"))
            .find(" figures compared, simgrid with threads; steady step (2) -20.0 %; sent bytes and collectives as predicted.\n") !=
        std::string::npos);
  CHECK(verdict_text(agreement(scratch / "sim", scratch / "sim"))
            .find(" figures compared, simgrid with simgrid, so nothing was measured; steady step (2) =;") != std::string::npos);
  write_run(scratch / "other", {}, "world: 2\nseed: 9\n");
  CHECK(verdict_text(agreement(scratch / "sim", scratch / "other")).starts_with("The scenarios differ in seed.\ndp: "));
  ordered_json summary = ordered_json::parse(scratch.read("sim/summary.json"));
  summary["results"].push_back(summary["results"][0]), summary["results"][1]["scheme"] = "more";
  scratch.write("sim/summary.json", summary.dump());
  CHECK(verdict_text(agreement(scratch / "other", scratch / "sim")).ends_with("\nmore: measured, but not predicted.\n"));
  CHECK(verdict_text(agreement(scratch / "sim", scratch / "other")).ends_with("\nmore: predicted, but not measured.\n"));
  CHECK(agreement_text(agreement(scratch / "sim", scratch / "real"))
            .ends_with("\n" + verdict_text(agreement(scratch / "sim", scratch / "real"))));
}

TEST_CASE("a step of unknown error is never within the allowed one") {
  const test::Scratch scratch;
  write_run(scratch / "sim"), write_run(scratch / "real");
  ordered_json summary = ordered_json::parse(scratch.read("real/summary.json"));
  summary["results"][0]["step_seconds"] = 0;
  scratch.write("real/summary.json", summary.dump());
  CHECK(disagreements(agreement(scratch / "sim", scratch / "real"), 10.0) ==
        "dp: the step's error is not known: the measured step takes no time\n");
}

TEST_CASE("two runs on other data are not of the same scenario, whatever their files are called") {
  const test::Scratch scratch;
  const auto write_with = [&](const char* place, const char* data) {
    scratch.write("x.txt", data);
    Scenario scenario;
    scenario.file = scratch / "s.yaml", scenario.name = "s", scenario.text = "world: 2\ndata: {text: x.txt}\n";
    scenario.files = {{"data.text", scratch / "x.txt"}};
    const SchemeResult result = test::made_by_hand("dp");
    ResultsFolder(scratch / place).write(scenario, {result}, {measure(scenario, result)}, {});
  };
  write_with("a", "one"), write_with("b", "one"), write_with("c", "two");
  CHECK(agreement(scratch / "a", scratch / "b")["changed"].empty());
  const ordered_json changed = agreement(scratch / "a", scratch / "c")["changed"];
  REQUIRE(changed.size() == 1);
  CHECK(changed[0]["key"] == "data.text, what is in the file");
  CHECK(changed[0]["values"][0] != changed[0]["values"][1]);
}
