// trace.json: valid JSON with one process per rank and one row per stream, in microseconds, without overlap.
#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "formats/trace.h"

using namespace shardsim;
using nlohmann::json;

namespace {

struct Recorded {
  std::vector<Span> spans;
  std::vector<LedgerEntry> entries;
  std::vector<double> begin, end;
};

json trace_of(const std::vector<Recorded>& ranks) {
  std::vector<formats::RankTrace> traces;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    traces.push_back({int(r), ranks[r].spans, ranks[r].entries, ranks[r].begin, ranks[r].end});
  std::ostringstream out;
  formats::write_trace(out, "ze\"ro", 8, traces);
  return json::parse(out.str());
}

std::vector<json> events(const json& trace, const std::string& phase) {
  std::vector<json> found;
  for (const json& event : trace["traceEvents"])
    if (event["ph"] == phase) found.push_back(event);
  return found;
}

}  // namespace

TEST_CASE("a trace is in microseconds, with one process per rank and one row per stream") {
  const Span forward{0, 2e-6, 0, 0, 4, Lane::compute, Verb::forward, 0, false};
  const Span gather{1e-6, 3.5e-6, 70, 80, 5, Lane::gather, Verb::all_gather, Span::collective, false};
  const json trace = trace_of({{{forward, gather}, {}, {0}, {4e-6}}, {{forward}, {}, {0}, {4e-6}}});
  CHECK(trace["traceName"] == "ze\"ro");
  CHECK(trace["distributedInfo"]["world_size"] == 8);
  const auto slices = events(trace, "X");
  REQUIRE(slices.size() == 5);  // three spans, and a step on each of two ranks
  CHECK(slices[0]["name"] == "forward u4: matmul");
  CHECK(slices[0]["dur"] == 2.0);
  CHECK(slices[1]["name"] == "nccl:all_gather u5");
  CHECK(slices[1]["ts"] == 1.0);
  CHECK(slices[1]["dur"] == 2.5);
  CHECK(slices[1]["tid"] != slices[0]["tid"]);
  CHECK(slices[1]["args"]["sent_bytes"] == 70);
  CHECK(slices[2]["name"] == "ProfilerStep#0");
  CHECK(slices[3]["pid"] == 1);
}

TEST_CASE("what happened before the first step moves the origin, not below zero") {
  const Span forward{0, 1e-6, 0, 0, 0, Lane::compute, Verb::forward, 0, false};
  const json trace = trace_of({{{forward}, {{-2e-6, 100, Band::param, Verb::bind, 0}}, {0}, {1e-6}}});
  CHECK(events(trace, "C")[0]["ts"] == 0.0);
  CHECK(events(trace, "X")[0]["ts"] == 2.0);
}

TEST_CASE("memory counters give every band after each instant") {
  const json trace = trace_of({{{},
                                {{1e-6, 100, Band::param, Verb::bind, 0},
                                 {1e-6, 20, Band::grad, Verb::backward, 0},
                                 {2e-6, -20, Band::grad, Verb::backward, 0}},
                                {},
                                {}}});
  const auto counters = events(trace, "C");
  REQUIRE(counters.size() == 2);
  CHECK(counters[0]["args"]["param"] == 100);
  CHECK(counters[0]["args"]["grad"] == 20);
  CHECK(counters[1]["args"]["grad"] == 0);
  CHECK(counters[1]["args"].size() == band_count);
}

TEST_CASE("slices of a row never overlap, however short they are") {
  Recorded rank;
  double time = 0;
  for (int i = 0; i < 1000; ++i) {
    const double next = time + 1e-10 * (1 + i % 17);
    rank.spans.push_back({time, next, 0, i, 0, Lane::compute, Verb::forward, 1, false});
    time = next;
  }
  rank.begin = {0, 3e-9, 5e-9}, rank.end = {4e-9, 6e-9, 7e-9};  // steps that overlap: there is no barrier
  std::map<int, double> end;
  for (const json& slice : events(trace_of({rank}), "X")) {
    const double begin = slice["ts"], duration = slice["dur"];
    CHECK(duration >= 0);
    CHECK(begin >= end[slice["tid"]] - 1e-9);
    end[slice["tid"]] = begin + duration;
  }
}
