// The report: what its page carries is what the folder's files say, and a folder that no run wrote is refused.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "app/metrics.h"
#include "app/report.h"
#include "app/results_folder.h"
#include "app/scenarios.h"
#include "core/error.h"

using namespace shardsim;
using nlohmann::ordered_json;

namespace {

/// Two schemes, made by hand; rank 1 has the larger peak.
void write_results(const std::filesystem::path& place, const std::string& name = "s") {
  Scenario scenario;
  scenario.file = "/somewhere/s.yaml", scenario.name = name, scenario.text = "world: 2\n";
  std::vector<SchemeResult> results = {test::made_by_hand("dp"), test::made_by_hand("zero3")};
  for (SchemeResult& result : results)
    for (RankResult& rank : result.ranks) {
      rank.entries.push_back({0.5, 100, Band::activation, Verb::forward, 0});
      rank.entries.push_back({1.5, -100, Band::activation, Verb::forward, 0});
    }
  std::vector<formats::Figures> figures;
  for (const SchemeResult& result : results) figures.push_back(measure(scenario, result));
  ResultsFolder(place).write(scenario, results, figures, {"a warning"});
}

}  // namespace

TEST_CASE("the report carries the summary, the scenario, the notes and every scheme") {
  const test::Scratch scratch;
  write_results(scratch / "out");
  const ordered_json data = report_data(scratch / "out");
  CHECK(data["summary"] == ordered_json::parse(scratch.read("out/summary.json")));
  CHECK(data["summary"]["notes"] == ordered_json({"a warning"}));
  CHECK(data["scenario"] == "world: 2\n");
  CHECK(data["table"] == scratch.read("out/table.txt"));
  REQUIRE(data["schemes"].size() == 2);
  CHECK(data["schemes"][1]["scheme"] == "zero3");
  CHECK(data["schemes"][0]["steps"]["loss"] == ordered_json({1.0, 0.75}));
  CHECK(data["schemes"][0]["links"]["shown"] == ordered_json::parse(R"([["wire", 1600.0]])"));
}

TEST_CASE("the report's timeline is the last step, in nanoseconds from its begin") {
  const test::Scratch scratch;
  write_results(scratch / "out");
  const ordered_json timeline = report_data(scratch / "out")["schemes"][0]["timeline"];
  CHECK(timeline["length"] == 2'000'000'000);
  CHECK(timeline["names"] == ordered_json({"forward", "all_reduce"}));
  REQUIRE(timeline["ranks"].size() == 2);
  CHECK(timeline["ranks"][0]["streams"]["compute"] == ordered_json::parse("[[0, 1000000000, 0, 0, 1, 0]]"));
  CHECK(timeline["ranks"][0]["streams"]["gather"] == ordered_json::parse("[[500000000, 1500000000, 1, 0, 1, 400]]"));
  // Rank, length, computing, exposed, hidden: 1.5 s of communication, 0.5 s of it while computing.
  CHECK(timeline["times"][1] == ordered_json::parse("[1, 2000000000, 1000000000, 1000000000, 500000000]"));
}

TEST_CASE("the report's memory is that of the rank and the step with the peak") {
  const test::Scratch scratch;
  write_results(scratch / "out");
  const ordered_json memory = report_data(scratch / "out")["schemes"][0]["memory"];
  CHECK(memory["rank"] == 1);
  CHECK(memory["has_peak"] == true);
  CHECK(memory["step"] == 0);
  CHECK(memory["peak_at"] == 500'000'000);
  CHECK(memory["at"] == ordered_json({0, 500'000'000, 1'500'000'000}));
  CHECK(memory["bands"]["param"] == ordered_json({1600, 1600, 1600}));
  CHECK(memory["bands"]["activation"] == ordered_json({0, 100, 0}));
}

TEST_CASE("a name cannot break out of the script that the data stand in") {
  const test::Scratch scratch;
  write_results(scratch / "out", "</script><script>alert(1)</script>");
  const std::string page = report_page(scratch / "out");
  if (page.empty()) return;  // built without npm
  CHECK(page.find("<script>alert") == std::string::npos);
  CHECK(page.find("\\u003c/script>\\u003cscript>alert(1)") != std::string::npos);
}

TEST_CASE("a summary that no run has written so is refused by the place that is wrong") {
  const test::Scratch scratch;
  write_results(scratch / "out");
  const ordered_json whole = ordered_json::parse(scratch.read("out/summary.json"));
  const auto refusal = [&](const std::string& place, const ordered_json& value) {
    ordered_json edited = whole;
    edited[ordered_json::json_pointer(place)] = value;
    scratch.write("out/summary.json", edited.dump());
    try {
      report_data(scratch / "out");
    } catch (const ScenarioError& error) {
      const std::string text = error.what(), head = (scratch / "out/summary.json").string() + ": ";
      CHECK(text.find(head) == 0);
      CHECK(text.find('\n') == std::string::npos);
      return text.substr(head.size(), text.find(';') - head.size());
    }
    return std::string("accepted");
  };
  CHECK(refusal("/results/1/step_seconds", whole["results"][1]["step_seconds"]) == "accepted");
  CHECK(refusal("/results/1/step_seconds", "fast") == "results[1].step_seconds is no number");
  CHECK(refusal("/results/0/parameters", 0.5) == "results[0].parameters is no whole number of at least 1");
  CHECK(refusal("/results/0/peak_bytes", -1) == "results[0].peak_bytes is less than 0");
  CHECK(refusal("/results/0/scheme", "../other") == "results[0].scheme is no scheme's name");
  CHECK(refusal("/results/0/peak_parts/0/bytes", "many") == "results[0].peak_parts has something that is no part of the memory");
  CHECK(refusal("/results/0/resident_composition/param", ordered_json::array()) ==
        "results[0].resident_composition.param is no number");
  CHECK(refusal("/results", ordered_json::array()) == "results is empty");
  CHECK(refusal("/results/0", 3) == "results[0] is no map");
  CHECK(refusal("/notes", "none") == "notes is no list");
  ordered_json shorter = whole;
  shorter["results"][1].erase("peak_seconds");
  scratch.write("out/summary.json", shorter.dump());
  CHECK_THROWS_WITH_AS(report_data(scratch / "out"), doctest::Contains("results[1].peak_seconds is missing"), ScenarioError);
}

TEST_CASE("a folder that no run wrote has no report") {
  const test::Scratch scratch;
  scratch.write("thesis.tex", "years of work");
  CHECK_THROWS_WITH_AS(report_data(scratch.path()), doctest::Contains("is no folder that 'shardsim run' wrote"), ScenarioError);
  write_results(scratch / "out");
  std::filesystem::remove(scratch / "out/zero3/links.csv");
  CHECK_THROWS_WITH_AS(report_data(scratch / "out"), doctest::Contains("links.csv: cannot be read"), ScenarioError);
  scratch.write("out/zero3/links.csv", "link\nwire\n");
  CHECK_THROWS_WITH_AS(report_data(scratch / "out"), doctest::Contains("links.csv:1: has no column 'bytes'"), ScenarioError);
}
