// The figures derived from a result, against visible arithmetic.
#include <doctest/doctest.h>

#include <cmath>

#include "app/metrics.h"
#include "app/scenarios.h"

using namespace shardsim;

namespace {

Scenario two_ranks() {
  Scenario scenario;
  scenario.world = 2, scenario.micro_batch = 8;
  return scenario;
}

}  // namespace

TEST_CASE("covered time counts overlaps once and gaps not at all") {
  CHECK(covered({}) == 0);
  CHECK(covered({{0, 1}, {2, 4}}) == 3);
  CHECK(covered({{2, 4}, {0, 3}, {1, 2}}) == 4);
  CHECK(covered({{0, 10}, {2, 3}}) == 10);
}

TEST_CASE("a step's loss is the mean over ranks, in double") {
  const formats::Figures f = measure(two_ranks(), test::made_by_hand("dp"));
  CHECK(f.losses == std::vector<double>{1.0, 0.75});  // (0.5 + 1.5) / 2, (0.25 + 1.25) / 2
  CHECK_FALSE(f.diverged_step);
}

TEST_CASE("the step at which the loss stops being finite is reported") {
  SchemeResult result = test::made_by_hand("dp");
  result.ranks[1].losses[1] = NAN;
  CHECK(measure(two_ranks(), result).diverged_step == 1);
  result.ranks[0].losses[0] = INFINITY;
  CHECK(measure(two_ranks(), result).diverged_step == 0);
}

TEST_CASE("times are per step, and communication under compute is not exposed") {
  const formats::Figures f = measure(two_ranks(), test::made_by_hand("dp"));
  CHECK(f.step_seconds.max == 2);
  CHECK(f.compute_seconds.max == 1);
  CHECK(f.exposed_comm_seconds.max == 1);  // 1.5 s of collectives, 0.5 s of it under compute
  CHECK(f.rows_per_second == 8);           // 2 ranks x 8 rows / 2 s
}

TEST_CASE("what lies outside the steps does not count as their time") {
  RankResult rank;
  rank.step_begin = {0}, rank.step_end = {4};
  rank.spans.push_back({-2, 1, 0, 0, 0, Lane::compute, Verb::bind, 0, false});
  rank.spans.push_back({3, 9, 8, 8, 0, Lane::gather, Verb::all_gather, Span::collective, false});
  CHECK(times_of(rank, 0).compute == 1);
  CHECK(times_of(rank, 0).exposed == 1);
}

TEST_CASE("traffic is counted in (N-1)/N of the parameters' bytes, and is 0 for one rank") {
  // 800 bytes in 2 steps; 400 per step / (1/2 x 100 x 4).
  CHECK(measure(two_ranks(), test::made_by_hand("dp")).traffic_units == 2);
  CHECK(measure(two_ranks(), test::made_by_hand("dp")).control_bytes.max == 8);
  SchemeResult alone = test::made_by_hand("dp");
  alone.world = 1;
  CHECK(measure(two_ranks(), alone).traffic_units == 0);
}

TEST_CASE("figures per step are those of the steps after the first, whatever that one did") {
  SchemeResult late = test::made_by_hand("dp");
  for (RankResult& rank : late.ranks) {
    rank.step_begin[0] = rank.host_step_begin[0] = -98;  // a hundred seconds instead of two
    rank.spans.push_back({-98, -1, 0, 0, 0, Lane::compute, Verb::forward, 0, false});
    rank.spans.push_back({-97, -1, 9000, 9000, 0, Lane::gather, Verb::all_gather, Span::collective, false});
    rank.traffic_bytes += 9000, rank.unsteady = {9000 + 400, 8, {500, 0}};
    rank.crossed = {700, 0};
  }
  const formats::Figures f = measure(two_ranks(), late);
  CHECK(f.first_step_seconds == 100);
  CHECK(f.step_seconds.max == 2);
  CHECK(f.compute_seconds.max == 1);
  CHECK(f.exposed_comm_seconds.max == 1);
  CHECK(f.rows_per_second == 8);
  CHECK(f.traffic_units == 2);
  CHECK(f.control_bytes.max == 8);
  CHECK(f.host_link_bytes.max == 200);
  const std::vector<Movement> moved = movements(two_ranks(), late);
  REQUIRE(moved.size() == 1);
  CHECK(moved[0].verb == Verb::all_reduce);
  CHECK(moved[0].units == 1);
}

TEST_CASE("what lies between two steps is no part of either; steps that overlap take what they take together") {
  SchemeResult result = test::made_by_hand("dp");
  result.first_steady = 0;
  for (RankResult& rank : result.ranks) rank.step_end[0] = 1.5;
  CHECK(measure(two_ranks(), result).step_seconds.max == 1.75);
  Scenario overlapping = two_ranks();
  overlapping.knobs.step_barrier = false;
  CHECK(measure(overlapping, result).step_seconds.max == 2);
}

TEST_CASE("a figure is the largest of all ranks, with its composition") {
  const formats::Figures f = measure(two_ranks(), test::made_by_hand("dp"));
  CHECK(f.resident_bytes.max == 1600);
  CHECK(f.peak_bytes.max == 1701);
  CHECK(f.peak_bytes.min == 1700);
  CHECK(f.peak_bytes.rank == 1);
  CHECK(f.peak.of(Band::activation) == 101);
  CHECK(f.per_parameter(double(f.model_state_peak_bytes.max)) == 16);
}

TEST_CASE("what moved is counted in units of the model, by verb") {
  const std::vector<Movement> moved = movements(two_ranks(), test::made_by_hand("dp"));
  REQUIRE(moved.size() == 1);
  CHECK(moved[0].verb == Verb::all_reduce);
  CHECK(moved[0].units == 1);
}

TEST_CASE("the hash of theta is FNV-1a over its little-endian bytes") {
  CHECK(theta_hash({}) == 0xcbf29ce484222325u);
  // 1.f is 00 00 80 3f: four rounds of xor and multiply.
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (std::uint64_t byte : {0x00, 0x00, 0x80, 0x3f}) hash = (hash ^ byte) * 1099511628211u;
  CHECK(theta_hash({1.f}) == hash);
  CHECK(theta_hash({0.f}) != theta_hash({-0.f}));
}
