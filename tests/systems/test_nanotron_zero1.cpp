// nanotron_zero1: one all-reduce of fp32 sums, one gather; what it holds, and that it trains as dp does.
#include <doctest/doctest.h>

#include <algorithm>

#include "core/error.h"
#include "systems/checks.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

const Words plain{{"zero_stage", "0"}}, bucketed{{"zero_stage", "0"}, {"ddp_bucket_cap_mb", "0.004"}};

SchemeResult train(const Scenario& s, const Words& words = {}) { return test::train(s, "nanotron_zero1", words); }

std::string refusal(const Scenario& s, const Words& words = {}) { return error_of(s, "nanotron_zero1", words); }

}  // namespace

TEST_CASE("nanotron holds 6 + 12/N bytes per parameter, 2 more at the end of a backward, and two copies during its gather") {
  const SchemeResult result = train(gpt2_large());
  const std::int64_t all = result.parameters;
  const RankResult& rank = result.ranks[0];
  CHECK(resident_of(rank, Band::param) == 2 * all);
  CHECK(resident_of(rank, Band::grad) == 4 * all);
  CHECK(resident_of(rank, Band::opt) == 12 * all / 8);
  std::int64_t grads = 0, gathered = 0, most_grads = 0, most_gathered = 0;
  for (const LedgerEntry& entry : rank.entries) {
    if (entry.band == Band::grad) most_grads = std::max(most_grads, grads += entry.bytes);
    if (entry.band == Band::gathered) most_gathered = std::max(most_gathered, gathered += entry.bytes);
  }
  CHECK(most_grads == (4 + 2) * all);
  CHECK(most_gathered == 2 * all + 2 * all / 8);
  CHECK(gathered == 0);
}

TEST_CASE("nanotron's step is one all-reduce of the fp32 gradient and one gather of everything: 5 units, all of it exposed") {
  const SchemeResult result = train(gpt2_large());
  const std::vector<Span> all = collectives_of(result, 1);
  REQUIRE(all.size() == 2);
  CHECK(all[0].verb == Verb::all_reduce);
  CHECK(all[0].size == 4 * result.parameters);
  CHECK(all[1].verb == Verb::all_gather);
  CHECK(all[1].size == 2 * result.parameters);
  for (const Span& span : all) CHECK(span.lane == Lane::compute);
  CHECK(result.ranks[0].traffic_bytes == 2 * 5 * 2 * result.parameters / 8 * 7);  // of two steps
}

TEST_CASE("nanotron sends, message by message, what its slices say, for every world, however many micro-batches") {
  for (const int n : counted_worlds)
    for (const int accumulation : {1, 3}) {
      CAPTURE(n);
      static const PlatformFile many{IdealGpus{.gpus = 64}};
      Scenario s = thin_gpt2();
      s.platform = many.path(), s.world = n, s.steps = 2, s.fabric = Fidelity::ring, s.numerics = Numerics::off;
      s.knobs.accumulation = accumulation;
      const SchemeResult result = train(s);
      std::int64_t all = 0, longest = 0;
      std::vector<std::int64_t> slices(std::size_t(n), 0);  // floor and one more for the first of them
      for (const std::int64_t count : counts_of_thin()) {
        all += count, longest += (count + n - 1) / n;
        for (int r = 0; r < n; ++r) slices[std::size_t(r)] += count / n + (r < count % n);
      }
      CHECK(all == result.parameters);
      for (int me = 0; me < n; ++me) {
        CHECK(result.ranks[std::size_t(me)].traffic_bytes == 2 * 4 * ((n - 1) * longest + sent_in_all_reduce(all, n, me)));
        CHECK(resident_of(result.ranks[std::size_t(me)], Band::opt) == 12 * slices[std::size_t(me)]);
      }
      CHECK(std::max_element(slices.begin(), slices.end()) == slices.begin());  // rank 0 holds the most
      CHECK(*std::min_element(slices.begin(), slices.end()) == slices.back());  // and the last one the least
    }
}

TEST_CASE(
    "without ZeRO-1 nanotron all-reduces the fp32 sums bucket by bucket under backward: 4 units, and 20 bytes per parameter") {
  Scenario s = gpt2_large();
  s.tells_timeline = true;
  const SchemeResult result = train(s, plain);
  const std::int64_t all = result.parameters;
  const RankResult& rank = result.ranks[0];
  CHECK(resident_of(rank, Band::param) == 2 * all);
  CHECK(resident_of(rank, Band::grad) == 4 * all);
  CHECK(resident_of(rank, Band::bucket) == 2 * all);
  CHECK(resident_of(rank, Band::opt) == 12 * all);
  CHECK(rank.traffic_bytes == 2 * 4 * 2 * all / 8 * 7);  // of two steps
  const std::vector<Span> reductions = collectives(result, Verb::all_reduce);
  CHECK(reductions.size() == 436);  // tensors
  CHECK(reductions.front().lane == Lane::reduce);
  CHECK(result.timeline.size() > 40);  // buckets of at least 25 MiB
  for (std::size_t i = 0; i + 1 < result.timeline.size(); ++i)
    CHECK(result.timeline[i].trigger == "bucket " + std::to_string(i) + " is full");
  // The reductions hide under backward, the one at the end of ZeRO-1 does not.
  const SchemeResult sharded = train(s);
  CHECK(sharded.ranks[0].step_end[1] - sharded.ranks[0].step_begin[1] > rank.step_end[1] - rank.step_begin[1]);
}

TEST_CASE("without ZeRO-1 nanotron sends what the rings of its tensors add up to, message by message") {
  for (const int n : counted_worlds)
    for (const int accumulation : {1, 3}) {
      CAPTURE(n);
      static const PlatformFile many{IdealGpus{.gpus = 64}};
      Scenario s = thin_gpt2();
      s.platform = many.path(), s.world = n, s.steps = 2, s.fabric = Fidelity::ring, s.numerics = Numerics::off;
      s.knobs.accumulation = accumulation;
      const SchemeResult result = train(s, bucketed);
      for (int me = 0; me < n; ++me) {
        std::int64_t expected = 0;
        for (const std::int64_t count : counts_of_thin()) expected += 4 * sent_in_all_reduce(count, n, me);
        CHECK(result.ranks[std::size_t(me)].traffic_bytes == 2 * expected);
      }
    }
}

TEST_CASE("nanotron follows the losses of dp within 1e-5 over 100 steps, and on two ranks dp's parameters to the bit") {
  Scenario s = thin_gpt2();
  s.steps = 100, s.knobs.adam.lr = 3e-3f;
  double worst = 0;
  for (const int world : {1, 2, 3, 8}) {
    CAPTURE(world);
    s.world = world;
    const SchemeResult dp = test::run(s, "dp");
    for (const Words& words : {Words{}, bucketed}) {
      const SchemeResult ours = train(s, words);
      worst = std::max(worst, worst_difference(ours.ranks[0].losses, dp.ranks[0].losses));
      if (world <= 2) CHECK(ours.theta == dp.theta);  // a sum of two has one order, and a half is exact
      CHECK(ours.ranks[0].losses.back() < 0.9f * ours.ranks[0].losses.front());
    }
  }
  MESSAGE("worst relative difference of a loss: " << worst);
  CHECK(worst < 1e-5);
}

TEST_CASE("nanotron with micro-batches and clipping follows dp, with the same bits on threads; bf16 differs by less than 2e-3") {
  for (const bool tied : {true, false})
    for (const int world : {1, 3, 64}) {
      Scenario s = thin_gpt2(tied);
      static const PlatformFile many{IdealGpus{.gpus = 64}};
      s.platform = many.path(), s.world = world, s.knobs.accumulation = 3, s.knobs.clip = 0.5f, s.steps = 3;
      const SchemeResult dp = test::run(s, "dp");
      for (const Words& words : {Words{}, bucketed}) {
        s.backend = "simgrid";
        const SchemeResult ours = train(s, words);
        CHECK(worst_difference(ours.ranks[0].losses, dp.ranks[0].losses) < 1e-5);
        s.backend = "threads";
        if (world < 64) CHECK(hash_of(train(s, words).theta) == hash_of(ours.theta));
      }
    }
  Scenario s = thin_gpt2();
  s.steps = 20, s.world = 8, s.knobs.precision = {Dtype::bf16, Dtype::bf16, Dtype::fp32};
  const double difference = worst_difference(train(s).ranks[0].losses, test::run(s, "dp").ranks[0].losses);
  MESSAGE("worst relative difference of a loss in bf16: " << difference);
  CHECK(difference < 2e-3);
  CHECK(difference > 0);
}

TEST_CASE("nanotron in full, as a twin and without numerics takes the same seconds and bytes") {
  Scenario s = thin_gpt2();
  s.world = 3, s.knobs.accumulation = 2, s.knobs.clip = 1;
  s.transformer->twin_hidden = 8, s.transformer->twin_heads = 2, s.transformer->twin_vocab = 5, s.transformer->twin_sequence = 3;
  for (const Words& words : {Words{}, bucketed}) {
    s.numerics = Numerics::full;
    const SchemeResult full = train(s, words);
    for (const Numerics numerics : {Numerics::twin, Numerics::off}) {
      s.numerics = numerics;
      const SchemeResult thin = train(s, words);
      check_same_costs(thin, full);
      if (numerics == Numerics::twin) CHECK(worst_difference(thin.ranks[0].losses, test::run(s, "dp").ranks[0].losses) < 1e-5);
    }
  }
}

TEST_CASE("nanotron without one of its waits is told which") {
  check_missing_waits_are_named(thin_gpt2(), "nanotron_zero1", bucketed,
                                {{Edge::gradient_before_reduction, Lane::reduce, Lane::compute},
                                 {Edge::reduction_before_update, Lane::compute, Lane::reduce}});
}

TEST_CASE("nanotron's newest version is refused as it refuses itself, and types that it does not combine") {
  Scenario s = thin_gpt2();
  CHECK(refusal(s, {{"commit", "newest"}}).find("raises NotImplementedError with ZeRO-1") != std::string::npos);
  CHECK(refusal(s, {{"commit", "newest"}, {"zero_stage", "0"}}).empty());
  s.world = 1;
  CHECK(refusal(s, {{"commit", "newest"}}).empty());  // no DDP on one rank
  CHECK(refusal(s, {{"commit", "main"}}).find("one of before-7bc9923, newest") != std::string::npos);
  CHECK(refusal(s, {{"zero_stage", "2"}}).find("a whole number from 0 to 1") != std::string::npos);
  CHECK(refusal(s, {{"bucket_cap_mb", "2"}}).find("unknown option") != std::string::npos);
  s.knobs.precision = {Dtype::bf16, Dtype::bf16, Dtype::bf16, false};
  CHECK(refusal(s).find("precision.master: fp32") != std::string::npos);
  s.knobs.precision = {Dtype::bf16, Dtype::fp32, Dtype::fp32};
  CHECK(refusal(s).find("precision.grad") != std::string::npos);
}

TEST_CASE("nanotron's timeline is two lines") {
  Scenario s = gpt2_large();
  s.tells_timeline = true;
  const std::vector<TimelineEntry> timeline = train(s).timeline;
  REQUIRE(timeline.size() == 2);
  CHECK(timeline[0].what == "all_reduce of the whole fp32 gradient");
  CHECK(timeline[1].what.starts_with("all_gather of all slices"));
}
