// The scenario's `collectives`: what each key means, and what does not go together.
#include <doctest/doctest.h>

#include "app/scenarios.h"
#include "core/error.h"

using namespace shardsim;
using cost::Algorithm;
using cost::Protocol;
using test::scenario_text;

namespace {

std::string refusal(const std::string& more) {
  const test::ScenarioFolder folder;
  try {
    folder.read(scenario_text(more));
  } catch (const ScenarioError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("collectives says the algorithm, the protocol, and measured bandwidths and latencies") {
  const test::ScenarioFolder folder;
  const Scenario s =
      folder.read(scenario_text("latency: nccl\n"
                                "collectives: {algorithm: tree, protocol: LL128, bus: {all_gather: 361GBps, all_reduce: 3.2Tbps}, "
                                "alpha: {all_gather: 33us, reduce_scatter: 0us}}\n"));
  CHECK(s.collectives.algorithm == Algorithm::tree);
  CHECK(s.collectives.protocol == Protocol::ll128);
  CHECK(s.collectives.of(Verb::all_gather).bus == 361e9);
  CHECK(s.collectives.of(Verb::all_reduce).bus == 400e9);
  CHECK(!s.collectives.of(Verb::reduce_scatter).bus);
  CHECK(*s.collectives.of(Verb::all_gather).alpha == doctest::Approx(33e-6).epsilon(1e-12).scale(0));
  CHECK(s.collectives.of(Verb::reduce_scatter).alpha == 0);
  CHECK(!s.collectives.of(Verb::all_reduce).alpha);
  CHECK(s.notes == std::vector<std::string>{
                       "collectives.bus.all_reduce: 3.2Tbps (scenario)", "collectives.bus.all_gather: 361GBps (scenario)",
                       "collectives.alpha.reduce_scatter: 0us (scenario)", "collectives.alpha.all_gather: 33us (scenario)"});
}

TEST_CASE("without collectives, or with auto, the choice is NCCL's") {
  const test::ScenarioFolder folder;
  for (const char* more : {"", "collectives: {algorithm: auto, protocol: auto}\n", "collectives: {}\n"}) {
    const Scenario s = folder.read(scenario_text(more));
    CHECK(!s.collectives.algorithm);
    CHECK(!s.collectives.protocol);
    CHECK(s.notes.empty());
  }
}

TEST_CASE("a ring of real messages takes no other algorithm and no measured prices") {
  const std::string ring = "fabric: ring\nlatency: nccl\n";
  CHECK(refusal(ring + "collectives: {algorithm: ring, protocol: Simple}\n").empty());
  for (const char* rules : {"algorithm: tree", "protocol: LL", "bus: {all_gather: 361GBps}", "alpha: {all_gather: 33us}"}) {
    const std::string text = refusal(ring + "collectives: {" + rules + "}\n");
    INFO(text);
    CHECK(text.find("fabric: ring sends real messages") < std::string::npos);
    CHECK(text.find("choose coupled or formula") < std::string::npos);
  }
}

TEST_CASE("each mistake in collectives is refused for its own reason") {
  const std::pair<const char*, const char*> wrong[] = {
      {"collectives: {algorithm: ring}\n", "add latency: nccl"},
      {"collectives: {protocol: LL}\n", "add latency: nccl"},
      {"latency: nccl\ncollectives: {algorithm: nvls, protocol: LL}\n", "does not go with algorithm: nvls"},
      {"latency: nccl\ncollectives: {algorithm: rings}\n", "known values: auto, ring, tree, nvls"},
      {"latency: nccl\ncollectives: {protocol: simple}\n", "known values: auto, LL, LL128, Simple"},
      {"collectives: {busbw: 1GBps}\n", "known keys: algorithm, protocol, bus, alpha"},
      {"collectives: {bus: {scatter: 1GBps}}\n",
       "known keys: all_reduce, reduce_scatter, all_gather, reduce, broadcast, all_to_all"},
      {"collectives: {bus: 361GBps}\n", "a map is expected"},
      {"collectives: {bus: {all_gather: 361}}\n", "has no unit"},
      {"collectives: {bus: {all_gather: 0GBps}}\n", "is out of range"},
      {"collectives: {bus: {all_gather: -1GBps}}\n", "is out of range"},
      {"collectives: {alpha: {all_gather: -1us}}\n", "is out of range"},
      {"collectives: {alpha: {all_gather: 33GB}}\n", "unknown unit"},
  };
  for (const auto& [more, reason] : wrong) {
    const std::string text = refusal(more);
    INFO(reason << " in: " << text);
    CHECK(text.find(reason) < std::string::npos);
    CHECK(text.find("collectives") < std::string::npos);
  }
}
