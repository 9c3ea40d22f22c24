// The comparison of runs: scenarios key by key, figures with the parts that moved them.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "app/comparison.h"
#include "app/metrics.h"
#include "app/results_folder.h"
#include "app/scenarios.h"
#include "core/error.h"

using namespace shardsim;
using nlohmann::ordered_json;

namespace {

/// A run made by hand: computing takes `forward` seconds more than 1, and a unit of `activation` bytes lies in the peak.
void write_run(const std::filesystem::path& place, const std::string& text, std::vector<std::string> schemes, double more = 0) {
  Scenario scenario;
  scenario.file = "/somewhere/s.yaml", scenario.name = "s", scenario.text = text;
  std::vector<SchemeResult> results;
  std::vector<formats::Figures> figures;
  for (const std::string& scheme : schemes) {
    SchemeResult result = test::made_by_hand(scheme);
    for (RankResult& rank : result.ranks) {
      for (Span& span : rank.spans)
        if (span.op != Span::collective) span.end += more;
      rank.step_end.back() += 2 * more;
      if (more > 0) rank.peak.bytes += 50, rank.peak.parts = test::with(rank.peak.parts, {Band::gathered, Verb::all_gather, 0, 50});
    }
    figures.push_back(measure(scenario, result));
    results.push_back(std::move(result));
  }
  ResultsFolder(place).write(scenario, results, figures, {});
}

ordered_json row(const ordered_json& compared, const std::string& figure) {
  for (const ordered_json& row : compared["schemes"][0]["rows"])
    if (row["figure"] == figure) return row;
  return {};
}

}  // namespace

TEST_CASE("a comparison names the keys that differ, and what each run says") {
  const test::Scratch scratch;
  write_run(scratch / "a", "world: 2\nbatch: {micro: 4}\n", {"dp"});
  write_run(scratch / "b", "world: 2\nbatch: {micro: 8}\nstreams: 1\n", {"dp"});
  CHECK(comparison({scratch / "a", scratch / "b"})["changed"] ==
        ordered_json::parse(R"([{"key": "batch.micro", "values": ["4", "8"]}, {"key": "streams", "values": [null, "1"]}])"));
  CHECK(comparison({scratch / "a", scratch / "a"})["changed"].empty());
}

TEST_CASE("a figure that moved says which of its parts did") {
  const test::Scratch scratch;
  write_run(scratch / "a", "world: 2\n", {"dp"});
  write_run(scratch / "b", "world: 2\n", {"dp"}, 0.25);
  const ordered_json compared = comparison({scratch / "a", scratch / "b"});
  CHECK(row(compared, "step")["values"] == ordered_json({"2.000 s", "2.500 s"}));
  CHECK(row(compared, "step")["changes"][1] == 0.25);
  // 1.25 s of computing; of 1.5 s of communication 0.75 s are hidden now and not 0.5 s; the rest of the step is idle.
  CHECK(row(compared, "step")["why"][1] == "idle +500.000 ms, compute +250.000 ms, exposed communication -250.000 ms");
  CHECK(row(compared, "compute")["why"][1] == "forward in the last step +250.000 ms");
  CHECK(row(compared, "exposed communication")["why"][1] == "not hidden behind compute -250.000 ms");
  CHECK(row(compared, "total peak")["why"][1] == "gathered +50 B");
  CHECK(row(compared, "resident")["changes"][1] == 0);
  CHECK(row(compared, "resident")["why"][1] == "");
  CHECK(row(compared, "theta")["why"][1] == "the same bits");
  CHECK(row(compared, "parameters").is_null());  // of interest where they differ
}

TEST_CASE("schemes are matched by name, or as they are where every run has one") {
  const test::Scratch scratch;
  write_run(scratch / "both", "world: 2\n", {"dp", "zero3"});
  write_run(scratch / "dp", "world: 2\n", {"dp"});
  write_run(scratch / "zero3", "world: 2\n", {"zero3"});
  const ordered_json some = comparison({scratch / "both", scratch / "dp"});
  REQUIRE(some["schemes"].size() == 1);
  CHECK(some["schemes"][0]["scheme"] == "dp");
  CHECK(some["missing"] == ordered_json({"zero3"}));
  CHECK(comparison({scratch / "dp", scratch / "zero3"})["schemes"][0]["scheme"] == "dp and zero3");
}

TEST_CASE("a comparison is printed with a column per run and the reasons below") {
  const test::Scratch scratch;
  write_run(scratch / "a", "world: 2\n", {"dp"});
  write_run(scratch / "b", "world: 2\nstreams: 1\n", {"dp"}, 0.25);
  const std::string text = comparison_text(comparison({scratch / "a", scratch / "b"}));
  CHECK(text.find("  streams: A says nothing; B 1\n") != std::string::npos);
  const std::string gap(8, ' '), name(20, ' ');
  CHECK(text.find("  step" + name + gap + "2.000 s" + gap + "2.500 s    +25.0 %\n      B: idle +500.000 ms,") !=
        std::string::npos);
  CHECK(text.find("1.56 KiB       1.56 KiB          =\n") != std::string::npos);
}

TEST_CASE("only folders that runs wrote are compared") {
  const test::Scratch scratch;
  write_run(scratch / "a", "world: 2\n", {"dp"});
  CHECK_THROWS_WITH_AS(comparison({scratch / "a", scratch / "none"}),
                       doctest::Contains("none: is no folder that 'shardsim run' wrote"), ScenarioError);
}
