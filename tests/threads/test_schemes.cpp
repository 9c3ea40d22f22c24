// The five textbook schemes on real threads: the same bits, the closed forms' bytes, and no race for ThreadSanitizer to find.
#include <doctest/doctest.h>

#include <map>

#include "threads/training.h"

using namespace shardsim;
using namespace shardsim::threads_tests;

namespace {

struct Traits {
  bool shards_opt, shards_grad, shards_param;
  int traffic;  ///< in units of (n - 1) / n x parameters, with one micro-batch
};
const std::map<std::string, Traits> traits = {{"dp", {false, false, false, 2}},
                                              {"zero1", {true, false, false, 2}},
                                              {"zero2", {true, true, false, 2}},
                                              {"zero3", {true, true, true, 3}},
                                              {"zero3_keep", {true, true, true, 2}}};

Job job(const std::string& scheme, int world, int streams) {
  Job job;
  job.scheme = scheme, job.world = world;
  job.knobs.streams = streams;
  job.knobs.adam.lr = 1e-2f;
  return job;
}

}  // namespace

TEST_CASE("all schemes train to the same bits on one to three streams of one to five ranks") {
  for (int world = 1; world <= 5; ++world) {
    const Trained reference = train(job("dp", world, 1));
    REQUIRE(reference.theta.size() == 6 * 10 + 10 + 10 * 10 + 10 + 10 * 3 + 3);
    REQUIRE(reference.losses.size() == std::size_t(3 * world));
    for (const std::string& scheme : scheme_names)
      for (int streams = 1; streams <= 3; ++streams) {
        CAPTURE(scheme);
        CAPTURE(world);
        CAPTURE(streams);
        const Trained trained = train(job(scheme, world, streams));
        CHECK(trained.theta == reference.theta);
        CHECK(trained.losses == reference.losses);
      }
  }
}

TEST_CASE("the bits do not depend on budgets, barriers, resident gradients or a host that runs ahead") {
  const std::vector<float> theta = train(job("dp", 3, 1)).theta;
  for (const std::string& scheme : scheme_names)
    for (int budget : {0, 4, unlimited})
      for (bool barrier : {true, false}) {
        CAPTURE(scheme);
        CAPTURE(budget);
        CAPTURE(barrier);
        Job varied = job(scheme, 3, 3);
        varied.knobs.prefetch = varied.knobs.unreduced = budget;
        varied.knobs.step_barrier = varied.knobs.grads_resident = barrier;
        CHECK(train(varied).theta == theta);
      }
}

TEST_CASE("bf16 parameters, bf16 sums, clipping and accumulation keep the pairs of equal bits") {
  for (int world : {1, 3, 4})
    for (int accumulation : {1, 2}) {
      std::map<std::string, std::vector<float>> theta;
      for (const std::string& scheme : scheme_names) {
        Job varied = job(scheme, world, 3);
        varied.knobs.precision = {Dtype::bf16, Dtype::bf16, Dtype::fp32};
        varied.knobs.clip = 0.05f;
        varied.knobs.accumulation = accumulation;
        theta[scheme] = train(varied).theta;
      }
      CAPTURE(world);
      CAPTURE(accumulation);
      CHECK(theta["zero1"] == theta["dp"]);
      CHECK(theta["zero3"] == theta["zero2"]);
      CHECK(theta["zero3_keep"] == theta["zero2"]);
      if (accumulation == 1) CHECK(theta["zero2"] == theta["dp"]);
    }
}

TEST_CASE("every rank sends what the closed form says, and holds what the table says") {
  for (const auto& [scheme, trait] : traits)
    for (int world : {1, 2, 4, 5}) {
      CAPTURE(scheme);
      CAPTURE(world);
      const Trained trained = train(job(scheme, world, 3));
      const std::int64_t whole = 4 * trained.padded(), slice = whole / world;
      for (const auto& rank : trained.ranks) {
        CHECK(rank.traffic_bytes == 3 * trait.traffic * (world - 1) * slice);  // three steps
        CHECK(rank.control_bytes == 0);
        const std::int64_t state =
            (trait.shards_param ? slice : whole) + (trait.shards_grad ? slice : whole) + 2 * (trait.shards_opt ? slice : whole);
        CHECK(rank.resident_state_bytes == state);
        CHECK(rank.peak_bytes >= rank.resident_bytes);
        // The peak depends on the schedule, but never exceeds what budgets of 1 allow: two gathered units and two full gradients,
        // each at most the whole model, and the activations.
        CHECK(rank.peak_bytes <= state + 4 * whole + 4096);
      }
    }
}

TEST_CASE("the norm's partial sums travel as control bytes") {
  for (const std::string& scheme : scheme_names) {
    Job clipped = job(scheme, 4, 2);
    clipped.knobs.clip = 1.f;
    CAPTURE(scheme);
    for (const auto& rank : train(clipped).ranks) CHECK(rank.control_bytes == (scheme == "dp" ? 0 : 3 * (4 - 1) * 4));
  }
}

TEST_CASE("without numerics the same bytes are sent and held") {
  for (const std::string& scheme : scheme_names) {
    Job with = job(scheme, 3, 2), without = with;
    without.backend.numerics = false;
    CAPTURE(scheme);
    const Trained a = train(with), b = train(without);
    for (int rank = 0; rank < 3; ++rank) {
      CHECK(a.ranks[rank].traffic_bytes == b.ranks[rank].traffic_bytes);
      CHECK(a.ranks[rank].resident_bytes == b.ranks[rank].resident_bytes);
    }
  }
}

TEST_CASE("spans of a stream follow one another, from the run's beginning on") {
  const Trained trained = train(job("zero3", 2, 3));
  for (const auto& rank : trained.ranks) {
    double end[lane_count] = {};
    bool used[lane_count] = {};
    for (const Span& span : rank.spans) {
      const auto lane = std::size_t(span.lane);
      CHECK(span.begin >= end[lane]);
      CHECK(span.end >= span.begin);
      end[lane] = span.end;
      used[lane] = true;
    }
    for (const Lane lane : {Lane::compute, Lane::gather, Lane::reduce}) CHECK(used[unsigned(lane)]);
  }
}

TEST_CASE("ranks that are not recorded keep their totals and no spans") {
  Job recorded = job("zero2", 3, 2);
  recorded.backend.recorded_ranks = 1;
  const Trained trained = train(recorded);
  CHECK(!trained.ranks[0].spans.empty());
  CHECK(trained.ranks[2].spans.empty());
  CHECK(trained.ranks[2].traffic_bytes == trained.ranks[0].traffic_bytes);
}
