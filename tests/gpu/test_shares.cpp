// A run's results are the same whether one process has all ranks or several nodes have some of them each.
#include <doctest/doctest.h>

#include <sstream>

#include "app/run.h"
#include "backends/simgrid/backend.h"
#include "gpu/on_nodes.h"
#include "property/runs.h"

using namespace shardsim;

namespace {

/// Every number of a result that a table, a trace or a file is made of, exactly.
std::string text_of(const SchemeResult& result) {
  std::ostringstream text;
  text << std::hexfloat << result.scheme << " " << result.world << " " << result.steps << " " << result.parameters << " "
       << result.padding << " " << result.shards << "\n";
  for (const float value : result.theta) text << value << " ";
  for (const RankResult& rank : result.ranks) {
    text << "\nrank " << rank.rank << " " << rank.traffic_bytes << " " << rank.control_bytes << "\n";
    for (const float loss : rank.losses) text << loss << " ";
    for (const auto* times : {&rank.step_begin, &rank.step_end, &rank.host_step_begin})
      for (const double seconds : *times) text << seconds << " ";
    for (const Peak* peak : {&rank.peak, &rank.model_state_peak}) {
      text << "\npeak " << peak->bytes << " " << peak->seconds << " ";
      for (const Part& part : peak->parts) text << int(part.band) << " " << part.unit << " " << part.bytes << " ";
    }
    for (const Part& part : rank.resident) text << int(part.band) << " " << part.unit << " " << part.bytes << " ";
    for (const Span& span : rank.spans)
      text << "\n" << span.begin << " " << span.end << " " << span.bytes << " " << span.unit << " " << int(span.op);
    for (const LedgerEntry& entry : rank.entries) text << "\n" << entry.seconds << " " << entry.bytes << " " << entry.unit;
  }
  return text.str();
}

/// The whole on node 0. All ranks are simulated on every node, which gives only its own ones.
std::vector<std::string> results(const Scenario& scenario, const std::string& scheme, int count) {
  return test::on_nodes(count, [&](test::Seat& seat) {
    seat.nodes.world = scenario.world;
    SimgridSettings settings;
    settings.platform = scenario.platform, settings.recorded_ranks = scenario.recorded_ranks;
    SimgridBackend backend(settings);
    const TrainingSet set(scenario);
    const auto nodes = seat.meet();
    const Crew crew{nodes->nodes().first(seat.nodes.me), nodes->nodes().each(),
                    [&](std::string bytes) { return nodes->gather(std::move(bytes)); }};
    const Registry registry = built_in_schemes();
    return text_of(run_on(backend, {scenario, set, *registry.find(scheme)}, {.crew = count == 1 ? Crew() : crew}));
  });
}

}  // namespace

TEST_CASE("two or four nodes' shares make the result that one process has") {
  Scenario scenario = test::small_scenario();
  scenario.world = 4, scenario.steps = 3, scenario.recorded_ranks = 4;
  for (const char* scheme : {"dp", "zero1", "zero3"}) {
    const std::string alone = results(scenario, scheme, 1)[0];
    REQUIRE(alone.find("rank 3") != std::string::npos);
    for (const int count : {2, 4}) {
      CAPTURE(scheme);
      CAPTURE(count);
      const std::vector<std::string> found = results(scenario, scheme, count);
      CHECK((found[0] == alone));
      for (int node = 1; node < count; ++node) CHECK(found[std::size_t(node)].find("rank") == std::string::npos);
    }
  }
}

TEST_CASE("parameters that differ between nodes are found when theta is put together") {
  Scenario scenario = test::small_scenario();
  scenario.world = 2, scenario.steps = 1;
  const std::vector<std::string> found = test::on_nodes(2, [&](test::Seat& seat) {
    seat.nodes.world = 2;
    scenario.knobs.adam.lr *= float(1 + seat.nodes.me);
    SimgridSettings settings;
    settings.platform = scenario.platform;
    SimgridBackend backend(settings);
    const TrainingSet set(scenario);
    const auto nodes = seat.meet();
    const Crew crew{seat.nodes.me, 1, [&](std::string bytes) { return nodes->gather(std::move(bytes)); }};
    const Registry registry = built_in_schemes();
    run_on(backend, {scenario, set, *registry.find("dp")}, {.crew = crew});
    return std::string("done");
  });
  CHECK(found[0].find("error: after the last step rank 0 and rank 1 hold different parameters") == 0);
}
