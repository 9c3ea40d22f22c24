// Every event edge of the base class is needed: without it the hazard checker refuses the program, or a budget breaks.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "runs.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

/// Where each edge matters: three streams, nothing waits for the whole device at the end of a step.
Scenario overlapping(Edge omitted) {
  Scenario s = small_scenario();
  s.model.widths = {8, 16, 16, 16, 16, 8};
  s.knobs.streams = 3;
  s.knobs.step_barrier = false;
  s.knobs.omitted = omitted;
  return s;
}

struct Refusal {
  Edge edge;
  const char* scheme;
  const char* later;    ///< what the message has to name: the operation that does not wait,
  const char* earlier;  ///< the one it does not wait for,
  const char* missing;  ///< and the edge
};

std::int64_t most_units(const SchemeResult& result, Band band) {
  // The most units of which a full copy of the band is alive at once, from the ledger.
  std::vector<LedgerEntry> entries = result.ranks[0].entries;
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  std::int64_t alive = 0, most = 0;
  for (const LedgerEntry& entry : entries)
    if (entry.band == band && entry.cause != Verb::bind) most = std::max(most, alive += entry.bytes > 0 ? 1 : -1);
  return most;
}

}  // namespace

TEST_CASE("without an event edge of the base class the hazard checker names both operations and the missing edge") {
  const Refusal refusals[] = {
      {Edge::parameters_before_use, "zero1", "forward(unit 0) matmul on the compute stream",
       "all_gather(unit 0) all_gather on the gather stream", "missing edge: the compute stream has to wait"},
      {Edge::gather_before_use, "zero3", "forward(unit 0) matmul on the compute stream",
       "all_gather(unit 0) all_gather on the gather stream", "missing edge: the compute stream has to wait"},
      {Edge::update_before_gather, "zero1", "all_gather(unit 0) all_gather on the gather stream",
       "adam(unit 0) adam on the compute stream", "missing edge: the gather stream has to wait"},
      {Edge::update_before_gather, "zero3", "all_gather(unit 0) all_gather on the gather stream",
       "adam(unit 0) adam on the compute stream", "missing edge: the gather stream has to wait"},
      {Edge::gradient_before_reduction, "dp", "all_reduce(unit 4) all_reduce on the reduce stream", "backward(unit 4)",
       "missing edge: the reduce stream has to wait"},
      {Edge::gradient_before_reduction, "zero2", "reduce_scatter(unit 4) reduce_scatter on the reduce stream", "backward(unit 4)",
       "missing edge: the reduce stream has to wait"},
      {Edge::reduction_before_update, "zero1", "adam(unit 4) adam on the compute stream",
       "reduce_scatter(unit 4) reduce_scatter on the reduce stream", "missing edge: the compute stream has to wait"},
  };
  for (const Refusal& refusal : refusals)
    for (const std::string backend : {"simgrid", "threads"}) {
      INFO(refusal.scheme << " without edge " << int(refusal.edge) << " on " << backend);
      Scenario s = overlapping(refusal.edge);
      s.backend = backend;
      const std::string message = illegal(s, refusal.scheme);
      INFO(message);
      CHECK(message.find(std::string("scheme '") + refusal.scheme) != std::string::npos);
      CHECK(message.find(refusal.later) != std::string::npos);
      CHECK(message.find(refusal.earlier) != std::string::npos);
      CHECK(message.find(refusal.missing) != std::string::npos);
    }
}

TEST_CASE("without the edge of a memory budget more units are alive than it allows") {
  // Compute is the slow part, so that nothing but the budget holds the gathers back; and the other way round for gradients.
  static const PlatformFile slow_compute([] {
    IdealGpus g;
    g.memory_bandwidth = 1e8;
    return g;
  }());
  static const PlatformFile slow_network([] {
    IdealGpus g;
    g.bandwidth = 1e6;
    return g;
  }());
  for (const int budget : {0, 1, 2}) {
    Scenario s = overlapping(Edge::count);
    s.platform = slow_compute.path();
    s.knobs.prefetch = budget;
    CHECK(most_units(run(s, "zero3"), Band::gathered) == budget + 1);
    s.knobs.omitted = Edge::release_before_gather;
    CHECK(most_units(run(s, "zero3"), Band::gathered) > budget + 1);

    s = overlapping(Edge::count);
    s.platform = slow_network.path();
    s.knobs.unreduced = budget;
    CHECK(most_units(run(s, "zero2"), Band::grad) == budget + 1);
    CHECK(most_units(run(s, "zero3"), Band::grad) <= budget + 1);  // slow gathers hold its backward back as well
    s.knobs.omitted = Edge::reduction_before_backward;
    CHECK(most_units(run(s, "zero2"), Band::grad) > budget + 1);
  }
}

TEST_CASE("with every edge in place no scheme has a hazard, on any number of streams") {
  for (const std::string& scheme : schemes())
    for (const std::string backend : {"simgrid", "threads"})
      for (const int streams : {1, 2, 3}) {
        Scenario s = overlapping(Edge::count);
        s.backend = backend;
        s.knobs.streams = streams;
        s.knobs.clip = 0.1f;
        s.knobs.accumulation = 2;
        CHECK(illegal(s, scheme).empty());
      }
}

TEST_CASE("a missing edge is found even when the numbers come out right") {
  // On simgrid the all-gather of the first step runs long before the next step's forward uses it: the numbers are right by luck.
  Scenario s = overlapping(Edge::parameters_before_use);
  s.checks_hazards = false;
  s.knobs.streams = 2;
  static const PlatformFile slow_launches([] {
    IdealGpus g;
    g.launch_seconds = 1e-3;
    return g;
  }());
  s.platform = slow_launches.path();
  const SchemeResult lucky = run(s, "zero1");
  s.knobs.omitted = Edge::count;
  CHECK(lucky.theta == run(s, "zero1").theta);
  s.knobs.omitted = Edge::parameters_before_use;
  s.checks_hazards = true;
  CHECK(illegal(s, "zero1").find("missing edge") != std::string::npos);
}

TEST_CASE("no unit is gathered further ahead than `prefetch`, whether it is released after its use or kept") {
  Scenario s = small_scenario();
  s.model.widths = {32, 32, 32, 32, 32, 32, 32};
  s.knobs.streams = 3, s.steps = 2;
  for (const char* scheme : {"zero3", "zero3_keep"})
    for (const int prefetch : {0, 1, 3}) {
      CAPTURE(scheme);
      CAPTURE(prefetch);
      s.knobs.prefetch = prefetch;
      const SchemeResult result = run(s, scheme);
      std::map<int, double> gathered, used;  // of the last step's forward pass, by unit
      for (const Span& span : result.ranks[0].spans) {
        if (span.begin < result.ranks[0].step_begin[1]) continue;
        if (span.verb == Verb::all_gather && span.op == Span::collective) gathered.try_emplace(span.unit, span.begin);
        if (span.verb == Verb::forward) used[span.unit] = span.end;
      }
      REQUIRE(gathered.size() == 6);
      for (int unit = prefetch + 1; unit < 6; ++unit) CHECK(gathered[unit] >= used[unit - prefetch - 1]);
    }
}
