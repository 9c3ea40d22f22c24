// What a sweep's grid may say, what is refused before anything runs, and how rows are written and ranked.
#include <doctest/doctest.h>

#include <set>

#include "app/scenarios.h"
#include "app/sweep_plan.h"
#include "app/sweep_rows.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

using Words = std::vector<std::string>;

SweepPlan plan_in(const ScenarioFolder& place, const Words& axes, const std::string& more, const Words& overrides) {
  place.folder().write("s.yaml", scenario_text(more));
  return make_plan({place.folder() / "s.yaml", overrides, axes, {}, 100}, built_in_schemes());
}

SweepPlan plan_of(const Words& axes, const std::string& more = "", const Words& overrides = {}) {
  return plan_in(ScenarioFolder(), axes, more, overrides);
}

/// The one line with which the sweep is refused, without the folder.
std::string refusal(const Words& axes, const std::string& more = "", const Words& overrides = {}) {
  const ScenarioFolder place;
  try {
    plan_in(place, axes, more, overrides);
    return "accepted";
  } catch (const ScenarioError& error) {
    std::string text = error.what();
    const std::string folder = place.folder().path().string() + "/";
    if (const std::size_t at = text.find(folder); at != std::string::npos) text.erase(at, folder.size());
    return text;
  }
}

std::vector<Words> points_of(const SweepGrid& grid) {
  std::vector<Words> points;
  for (std::size_t i = 0; double(i) < grid.size(); ++i) points.push_back(grid.cells(i));
  return points;
}

}  // namespace

TEST_CASE("a grid is the product of its axes, the last one runs fastest, and coupled keys move together") {
  const SweepGrid grid({}, {read_axis("units=whole,{bucket: 25MB}"), read_axis("batch.micro, batch.accumulation=1:8,2:4")});
  CHECK(grid.keys() == Words{"units", "batch.micro", "batch.accumulation"});
  CHECK(points_of(grid) ==
        std::vector<Words>{{"whole", "1", "8"}, {"whole", "2", "4"}, {"{bucket: 25MB}", "1", "8"}, {"{bucket: 25MB}", "2", "4"}});
}

TEST_CASE("a sweep has a run for each scheme of each point, with the block's keys and the command line's in place of them") {
  const std::string block = "sweep:\n  batch.micro: [1, 2]\n  'units, streams': [[whole, 1], [{bucket: 1KB}, 2]]\n";
  const SweepPlan of_block = plan_of({}, block);
  CHECK(of_block.grid.keys() == Words{"batch.micro", "units", "streams"});
  CHECK(of_block.runs.size() == 8);
  CHECK(of_block.grid.cells(3) == Words{"2", "{bucket: 1KB}", "2"});
  const SweepPlan replaced = plan_of({"streams=3", "steps=1,2"}, block, {"seed=4"});
  CHECK(replaced.grid.keys() == Words{"batch.micro", "streams", "steps"});
  const std::string tree = yaml_text(replaced.tree(1));
  CHECK_MESSAGE(tree.ends_with("seed: 4\nbatch: {micro: 1}\nstreams: 3\nsteps: 2\n"), tree);
  CHECK(replaced.runs[0].scheme == "dp");
  CHECK(replaced.runs[1].scheme == "zero3");
  std::set<std::uint64_t> keys;
  for (const SweepRun& run : replaced.runs) keys.insert(run.key);
  CHECK(keys.size() == 8);
}

TEST_CASE("what is wrong with a grid is refused before anything runs, in one line that names the key") {
  const std::vector<std::pair<Words, std::string>> cases = {
      {{"strems=1,2"}, "--grid strems: unknown key; known keys: name, schemes"},
      {{"batch.mico=1,2"}, "--grid batch.mico: unknown key; known keys: micro, sequence, accumulation"},
      {{"batch.micro=1,2", "strems=1"}, "--grid strems: unknown key"},
      {{"batch.micro="}, "--grid batch.micro: has no values; write for example batch.micro=1,2,4"},
      {{"batch.micro"}, "--grid 'batch.micro': has to be key=value,value"},
      {{"=1,2"}, "--grid '=1,2': has to be key=value,value"},
      {{"batch..micro=1"}, "--grid batch..micro: 'batch..micro' is no key of a scenario"},
      {{"batch.micro=1,,2"}, "--grid batch.micro: value 2 is empty"},
      {{"batch.micro=[1"}, "--grid batch.micro: '[1' is no row of YAML values"},
      {{"batch.micro=1,2,1"}, "--grid batch.micro: '1' stands there twice; remove one"},
      {{"batch.micro=1", "batch.micro=2"}, "--grid batch.micro: a key of it is in the grid already, by --grid batch.micro"},
      {{"batch={micro: 1}", "batch.micro=2"}, "--grid batch.micro: a key of it is in the grid already, by --grid batch"},
      {{"steps,steps=1:1"}, "--grid steps,steps: 'steps' stands there twice"},
      {{"steps,streams=1:1,2"}, "--grid steps,streams: '2' has to be 2 values, one for each key, as in 1:8"},
      {{"sweep.steps=[1]"}, "--grid sweep.steps: a grid cannot change the grid"},
      {{"batch.micro=0,1"}, "--grid batch.micro: '0' is out of range; write a whole number from 1"},
      {{"batch.micro=0,1", "steps=1,2"}, "--grid batch.micro: '0' is out of range"},
      {{"schemes=dp,zero4", "steps=1,2"}, "--grid schemes: there is no scheme 'zero4'"},
      {{"backend=simgrid,threads"}, "--grid backend=threads: s.yaml: backend: a sweep compares simulated seconds"},
      {{"steps=1,2,3,4,5,6,7,8,9,10,11", "seed=1,2,3,4,5,6,7,8,9,10"}, "sweep: the grid has 110 points, more than --max 100"},
      {{}, "sweep: there is no grid; write --grid batch.micro=1,2,4, or a block sweep: in the scenario"},
  };
  for (const auto& [axes, expected] : cases) {
    const std::string found = refusal(axes);
    CHECK_MESSAGE(found.starts_with(expected), found);
    CHECK(found.find('\n') == std::string::npos);
  }
  CHECK(refusal({"batch.micro=1"}, "", {"batch.micro=2"}) == "--set 'batch.micro=2': the grid has batch.micro too; remove one");
}

TEST_CASE("what is wrong with a scenario's block is refused by file and line, in a run too") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"sweep:\n  strems: [1, 2]\n", "s.yaml:6: sweep: strems: unknown key"},
      {"sweep:\n  batch.micro: [1, 0]\n", "s.yaml:6: sweep: batch.micro: '0' is out of range"},
      {"sweep:\n  batch.micro: 4\n", "s.yaml:6: sweep: batch.micro: is '4', but has to be a list of values"},
      {"sweep:\n  batch.micro: []\n", "s.yaml:6: sweep: batch.micro: has no values"},
      {"sweep:\n  steps: [1]\n  steps: [2]\n", "s.yaml:7: sweep.steps: a key of it is in the block already"},
      {"sweep: [1]\n", "s.yaml:5: sweep: is a list, but has to be a map of keys and lists"},
  };
  for (const auto& [block, expected] : cases) CHECK_MESSAGE(refusal({}, block).starts_with(expected), refusal({}, block));
  CHECK(ScenarioFolder().refusal(scenario_text(cases[2].first)).starts_with(cases[2].second));
  CHECK(ScenarioFolder().refusal(scenario_text("sweep: {batch.micro: [1, 2]}\n")) == "accepted");
}

TEST_CASE("values that are refused together only are rows of their own") {
  const SweepPlan plan = plan_of({"world=2,4", "mesh={replicas: 1, shards: 2},{replicas: 2, shards: 2}"});
  REQUIRE(plan.runs.size() == 6);
  CHECK(plan.runs[0].refusal.empty());
  CHECK(plan.runs[2].point == 1);
  CHECK(plan.runs[2].scheme.empty());
  CHECK(plan.runs[2].refusal.starts_with("--set mesh: "));
  CHECK(plan.runs[3].point == 2);
  CHECK(plan.runs[4].refusal.empty());
}

TEST_CASE("a run keeps its key when the grid grows, and loses it when a file that the scenario names changes") {
  ScenarioFolder place;
  const auto key = [&](const Words& axes) {
    return make_plan({place.folder() / "s.yaml", {}, axes, {}, 100}, built_in_schemes()).runs[0].key;
  };
  place.folder().write("s.yaml", scenario_text("sweep: {steps: [1]}\n"));
  const std::uint64_t before = key({"steps=7"});
  place.folder().write("s.yaml", "# A comment, and another order of the grid.\n" + scenario_text());
  CHECK(key({"steps=7,8"}) == before);
  CHECK(key({"steps=8,7"}) != before);
  place.folder().write("box.xml", "<platform />");
  CHECK(key({"steps=7"}) != before);
}

namespace {

/// "ok" with these figures, and all others 1.
std::string outcome(const std::string& status, double seconds, double samples_per_second, double bytes) {
  std::string text = status + ",";
  for (const SweepFigure& figure : sweep_figures()) {
    const std::string name = figure.name;
    const double value = name == "step_seconds"         ? seconds
                         : name == "samples_per_second" ? samples_per_second
                         : name == "gpu_needed_bytes"   ? bytes
                                                        : 1;
    text += "," + std::to_string(value);
  }
  return text;
}

}  // namespace

TEST_CASE("the Pareto front has every run that fits and that no other one beats, equal ones too, and nothing else") {
  SweepPlan plan = plan_of({"steps=1,2,3,4,5,6"}, "", {"schemes=dp"});
  plan.file = "s.yaml";
  int many = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    struct Run {
      bool fits;
      double seconds, bytes;
    };
    std::vector<Run> runs;
    Words outcomes;
    for (unsigned i = 0; i < 6; ++i) {  // few values, so that many are equal
      const unsigned draw = (seed * 6 + i + 1) * 2654435761u >> 16;
      runs.push_back({draw % 8 != 0, 1.0 + draw / 8 % 3, double((1 + draw / 24 % 3) << 20)});
      outcomes.push_back(outcome(runs[i].fits ? "ok" : "does_not_fit", runs[i].seconds, 1, runs[i].bytes));
    }
    std::string text = ranking_text(plan, outcomes, {"step_seconds", false, 10});
    text.erase(0, text.find("Pareto front"));
    const auto beats = [](const Run& a, const Run& b) {
      return a.fits && a.seconds <= b.seconds && a.bytes <= b.bytes && (a.seconds < b.seconds || a.bytes < b.bytes);
    };
    int on_front = 0;
    for (unsigned i = 0; i < 6; ++i) {
      const bool is_beaten = std::any_of(runs.begin(), runs.end(), [&](const Run& other) { return beats(other, runs[i]); });
      const bool is_told = text.find("  " + std::to_string(i + 1) + "      dp      ") != std::string::npos;
      CHECK_MESSAGE(is_told == (runs[i].fits && !is_beaten), text);
      on_front += is_told;
    }
    many += on_front > 2;
    CHECK(text.find("does_not_fit") == std::string::npos);
    if (on_front == 0) CHECK(text == "Pareto front of step_seconds against gpu_needed_bytes: none of these runs fits.\n");
  }
  CHECK(many > 10);
}

TEST_CASE("rows are ranked, those that do not fit only if wanted, and the Pareto front is what nothing beats in both") {
  SweepPlan plan = plan_of({"steps=1,2,3,4,5"}, "", {"schemes=dp"});
  plan.file = "s.yaml";
  const Words outcomes = {outcome("ok", 3, 10, 1 << 20), outcome("does_not_fit", 1, 30, 9 << 20), outcome("ok", 2, 15, 4 << 20),
                          outcome("ok", 2.5, 12, 5 << 20), outcome_without_figures("refused", "says \"no\", twice")};
  CHECK(ranking_text(plan, outcomes, {"samples_per_second", true, 2}) ==
        "5 runs of s.yaml: 3 ok, 1 does_not_fit, 1 refused\n"
        "  1 refused: says \"no\", twice\n"
        "\n"
        "Best by samples_per_second, of those that fit:\n"
        "  #  steps  scheme  samples_per_second  step_seconds  gpu_needed_bytes  status\n"
        "  1  3      dp      15                  2.000 s       4.00 MiB          ok\n"
        "  2  4      dp      12                  2.500 s       5.00 MiB          ok\n"
        "  and 1 more\n"
        "\n"
        "Pareto front of samples_per_second against gpu_needed_bytes, of the 3 runs that fit:\n"
        "  #  steps  scheme  samples_per_second  gpu_needed_bytes  status\n"
        "  1  3      dp      15                  4.00 MiB          ok\n"
        "  2  1      dp      10                  1.00 MiB          ok\n");
  const std::string all = ranking_text(plan, outcomes, {"gpu_needed_bytes", false, 1});
  CHECK(all.find("  1  1      dp      1.00 MiB") != std::string::npos);
  CHECK(all.find("Pareto front of step_seconds against gpu_needed_bytes, of the 3 runs that fit:\n"
                 "  #  steps  scheme  step_seconds  gpu_needed_bytes  status\n"
                 "  1  3      dp      2.000 s       4.00 MiB          ok\n"
                 "  and 1 more\n") != std::string::npos);
  const Words too_large(5, outcome("does_not_fit", 1, 30, 9 << 20)), too_much_for_hosts(5, outcome("does_not_fit", 1, 30, 1));
  CHECK(ranking_text(plan, too_large, {"step_seconds", true, 1}).find("needs 9.00 MiB of the GPU's 1 B.") != std::string::npos);
  CHECK(ranking_text(plan, too_much_for_hosts, {"step_seconds", true, 1}).find("needs 1 B of the host's 1 B.") !=
        std::string::npos);
  CHECK_THROWS_WITH_AS(ranking_text(plan, outcomes, {"parameters", false, 1}),
                       doctest::Contains("--best 'parameters': there is no such figure to rank by; known figures: step_seconds"),
                       ScenarioError);
  formats::Figures figures;
  figures.gpu_memory = 10, figures.peak_bytes.max = 9;
  CHECK(outcome_of(figures).starts_with("ok,,"));
  figures.host_memory = 1, figures.host_peak_bytes.max = 2;
  CHECK(outcome_of(figures).starts_with("does_not_fit,the host's memory is too small,"));
  figures.peak_bytes.max = 11;
  CHECK(outcome_of(figures).starts_with("does_not_fit,,"));
  const std::string csv = sweep_csv(plan, outcomes);
  CHECK(csv.starts_with("steps,scheme,status,reason,parameters,step_seconds,"));
  CHECK(csv.find("\n5,dp,refused,\"says \"\"no\"\", twice\",,,") != std::string::npos);
}
