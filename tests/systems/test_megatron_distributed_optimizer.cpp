// megatron_distributed_optimizer: its buffers and buckets, what a rank holds against measured rows, and that it trains as dp does.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "app/metrics.h"
#include "core/error.h"
#include "systems/checks.h"
#include "systems/megatron_runs.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

const Words plain{{"use_distributed_optimizer", "false"}};
const Words overlapped{{"overlap_grad_reduce", "true"}, {"overlap_param_gather", "true"}, {"bucket_size", "1500"}};

Words operator+(Words words, const Words& more) {
  for (const auto& [name, value] : more) words[name] = value;
  return words;
}

SchemeResult train(const Scenario& s, const Words& words = {}) { return test::train(s, "megatron_distributed_optimizer", words); }

std::string refusal(const Scenario& s, const Words& words) { return error_of(s, "megatron_distributed_optimizer", words); }

/// Elements of each bucket by the rule: backwards, a start at a multiple of 64, an end at one of `divisor`.
std::vector<std::int64_t> buckets_of(std::vector<std::int64_t> counts, std::int64_t limit, std::int64_t divisor) {
  const auto up = [](std::int64_t x, std::int64_t multiple) { return (x + multiple - 1) / multiple * multiple; };
  std::vector<std::int64_t> buckets;
  std::int64_t at = 0;
  std::reverse(counts.begin(), counts.end());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    at = up(at, 64) + counts[i];
    if (at < limit && i + 1 < counts.size()) continue;
    buckets.push_back(up(at, divisor));
    at = 0;
  }
  return buckets;
}

}  // namespace

TEST_CASE("Megatron holds 6 + 12/N bytes per parameter in bf16, 4 + 16/N with bf16 gradients, 8 + 8/N in fp32; DDP holds 18") {
  const auto held = [](const SchemeResult& result, Band band) {
    std::int64_t all = 0;
    for (const RankResult& rank : result.ranks) all += resident_of(rank, band);
    return double(all) / double(result.parameters) / double(result.ranks.size());
  };
  for (const int n : {1, 2, 4, 8}) {
    CAPTURE(n);
    Scenario s = megatron_test_gpt(8);
    s.world = n, s.knobs.accumulation = 1;
    const SchemeResult result = train(s);
    CHECK(result.parameters == parameters_of_test_gpt);
    CHECK(held(result, Band::param) == doctest::Approx(2).epsilon(1e-4));  // what is over is padding
    CHECK(held(result, Band::grad) == doctest::Approx(4).epsilon(1e-4));
    CHECK(held(result, Band::opt) == 12.0 / n);
    const SchemeResult narrow = train(s, {{"grad_reduce_in_fp32", "false"}});
    CHECK(held(narrow, Band::param) + held(narrow, Band::grad) + held(narrow, Band::opt) ==
          doctest::Approx(4 + 16.0 / n).epsilon(1e-4));
    const SchemeResult ddp = train(s, plain);
    CHECK(held(ddp, Band::param) + held(ddp, Band::grad) + held(ddp, Band::opt) == 18);
    s.knobs.precision = {};
    const SchemeResult wide = train(s);
    CHECK(held(wide, Band::param) + held(wide, Band::grad) == doctest::Approx(8).epsilon(1e-4));
    CHECK(held(wide, Band::opt) == 8.0 / n);
  }
}

TEST_CASE("the padding behind the last bucket makes the last rank hold least") {
  Scenario s = thin_gpt2();
  s.world = 8, s.numerics = Numerics::off;
  const SchemeResult result = train(s);
  std::vector<std::int64_t> held;
  for (const RankResult& rank : result.ranks) held.push_back(resident_of(rank, Band::opt));
  const std::int64_t shard = buckets_of(counts_of_thin(), 1 << 30, 128).front() / 8;
  CHECK(*std::max_element(held.begin(), held.end()) <= 8 * shard);
  CHECK(std::min_element(held.begin(), held.end()) - held.begin() == 7);
  CHECK(std::accumulate(held.begin(), held.end(), std::int64_t(0)) == 8 * result.parameters);
}

TEST_CASE("Megatron sends, message by message, one reduce-scatter and one gather of the padded buffers, for every world") {
  for (const int n : counted_worlds)
    for (const int accumulation : {1, 3})
      for (const bool busbw : {false, true}) {
        CAPTURE(n);
        CAPTURE(accumulation);
        static const PlatformFile many{IdealGpus{.gpus = 64}};
        Scenario s = thin_gpt2();
        s.platform = many.path(), s.world = n, s.steps = 2, s.fabric = Fidelity::ring, s.numerics = Numerics::off;
        s.knobs.accumulation = accumulation, s.recorded_ranks = n;
        const std::int64_t divisor = std::lcm(std::int64_t(n), std::int64_t(busbw ? 1 << 16 : 128));
        for (const auto& [words, limit] : {std::pair{Words{}, 1 << 30}, {overlapped, 1500}}) {
          const std::vector<std::int64_t> buckets = buckets_of(counts_of_thin(), limit, divisor);
          const std::int64_t all = std::accumulate(buckets.begin(), buckets.end(), std::int64_t(0));
          CHECK((limit == 1500) == (buckets.size() > 3));
          const SchemeResult result = train(s, words + Words{{"pad_buckets_for_high_nccl_busbw", busbw ? "true" : "false"}});
          // Gathers under forward: none before the first step's, and the last step's never come.
          const std::int64_t gathers = limit == 1500 ? 1 : 2;
          for (int me = 0; me < n; ++me)
            CHECK(result.ranks[std::size_t(me)].traffic_bytes == (2 + gathers) * 4 * all / n * (n - 1));
          const std::vector<Span> reductions = collectives(result, Verb::reduce_scatter);
          REQUIRE(reductions.size() == buckets.size());
          for (std::size_t i = 0; i < buckets.size(); ++i) CHECK(reductions[i].size == 4 * buckets[i]);
        }
      }
}

TEST_CASE("Megatron's gathers under the next forward pass are told with the steps that make them, however many there are") {
  Scenario s = thin_gpt2();
  s.numerics = Numerics::off, s.steps = 2;
  const double two_steps = measure(s, train(s, overlapped)).traffic_units;
  for (const int steps : {2, 3, 10}) {
    CAPTURE(steps);
    s.steps = steps;
    const SchemeResult result = train(s, overlapped);
    CHECK(measure(s, result).traffic_units == two_steps);
    const std::vector<Movement> moved = movements(s, result);
    REQUIRE(moved.size() == 2);
    CHECK(moved[0].units == moved[1].units);  // what is reduced is gathered
  }
}

TEST_CASE("without the distributed optimizer Megatron all-reduces an unpadded buffer, message by message") {
  for (const int n : counted_worlds)
    for (const int accumulation : {1, 3}) {
      CAPTURE(n);
      static const PlatformFile many{IdealGpus{.gpus = 64}};
      Scenario s = thin_gpt2();
      s.platform = many.path(), s.world = n, s.steps = 2, s.fabric = Fidelity::ring, s.numerics = Numerics::off;
      s.knobs.accumulation = accumulation;
      const SchemeResult result = train(s, plain);
      std::int64_t least = 0, most = 0;
      for (int me = 0; me < n; ++me) {
        const std::int64_t sent = result.ranks[std::size_t(me)].traffic_bytes;
        CHECK(sent == 2 * 4 * sent_in_all_reduce(result.parameters, n, me));
        least = me == 0 ? sent : std::min(least, sent), most = std::max(most, sent);
      }
      CHECK(most - least <= 2 * 2 * 4);  // an element more in each half of an all-reduce
    }
}

TEST_CASE("several instances reduce-scatter within, and all-reduce their shards between each other") {
  Scenario s = megatron_test_gpt(8);
  s.memory.torch = false;
  const SchemeResult result = train(s, {{"num_distributed_optimizer_instances", "2"}});
  const std::int64_t padded = collectives(result, Verb::reduce_scatter)[0].size / 4;
  CHECK(padded % 512 == 0);
  REQUIRE(collectives(result, Verb::all_reduce).size() == 1);
  CHECK(collectives(result, Verb::all_reduce)[0].size == 4 * padded / 4);
  CHECK(collectives(result, Verb::reduce_scatter)[0].bytes == 4 * padded / 4 * 3);
  CHECK(double(resident_of(result.ranks[0], Band::opt)) == doctest::Approx(12.0 * double(padded) / 4).epsilon(1e-3));
  CHECK(refusal(s, {{"num_distributed_optimizer_instances", "3"}}).find("3 do not divide 8 ranks") != std::string::npos);
}

TEST_CASE("gathers under forward go from the last bucket to the first, one in flight, and hide all but the first of them") {
  Scenario s = gpt2_large();
  s.steps = 3;
  const Words both{{"overlap_grad_reduce", "true"}, {"overlap_param_gather", "true"}};
  const SchemeResult result = train(s, both), exposed = train(s);
  const std::vector<Span> gathers = collectives(result, Verb::all_gather), reductions = collectives(result, Verb::reduce_scatter);
  REQUIRE(gathers.size() > 10);  // 774 million elements in buckets of 40 million
  REQUIRE(reductions.size() == gathers.size());
  for (std::size_t i = 0; i < gathers.size(); ++i) {
    CHECK(gathers[i].unit == int(gathers.size() - 1 - i));
    CHECK(reductions[i].unit == int(i));
    CHECK(reductions[i].lane == Lane::reduce);
    CHECK(gathers[i].lane == Lane::gather);
    if (i > 0) CHECK(gathers[i].begin >= gathers[i - 1].end);
  }
  const auto last_step = [](const SchemeResult& r) { return r.ranks[0].step_end[2] - r.ranks[0].step_begin[2]; };
  const double gather = collectives(exposed, Verb::all_gather)[0].end - collectives(exposed, Verb::all_gather)[0].begin;
  CHECK(last_step(exposed) - last_step(result) > gather);
  CHECK(collectives(exposed, Verb::reduce_scatter).size() == 1);
  CHECK(collectives_of(result, 0).size() == reductions.size());  // nothing to gather in the first forward pass
}

TEST_CASE("Megatron follows the losses of dp within 1e-5 over 100 steps, and on two ranks dp's parameters to the bit") {
  Scenario s = thin_gpt2();
  s.steps = 100, s.knobs.adam.lr = 3e-3f;
  double worst = 0;
  for (const int world : {1, 2, 3, 8})
    for (const Words& words : {Words{}, plain, overlapped}) {
      CAPTURE(world);
      s.world = world;
      const SchemeResult dp = test::run(s, "dp"), ours = train(s, words);
      worst = std::max(worst, worst_difference(ours.ranks[0].losses, dp.ranks[0].losses));
      if (world <= 2) CHECK(ours.theta == dp.theta);  // a sum of two has one order, and a half is exact
      CHECK(ours.ranks[0].losses.back() < 0.9f * ours.ranks[0].losses.front());
    }
  MESSAGE("worst relative difference of a loss: " << worst);
  CHECK(worst < 1e-5);
}

TEST_CASE("Megatron with micro-batches, clipping, instances and every overlap follows dp, with the same bits on threads") {
  for (const bool tied : {true, false})
    for (const auto& [world, words] : std::vector<std::pair<int, Words>>{
             {3, {}},
             {3, plain},
             {4, overlapped},
             {4, overlapped + Words{{"num_distributed_optimizer_instances", "2"}, {"average_in_collective", "true"}}},
             {6, Words{{"num_distributed_optimizer_instances", "3"}}},
             {3, Words{{"use_distributed_optimizer", "false"}, {"overlap_grad_reduce", "true"}, {"bucket_size", "900"}}}}) {
      Scenario s = thin_gpt2(tied);
      s.world = world, s.knobs.accumulation = 3, s.knobs.clip = 0.5f, s.steps = 5;
      check_follows_dp(s, "megatron_distributed_optimizer", words, {1, 2, 3});
    }
}

TEST_CASE("Megatron in bf16 differs from dp by the order of fp32 sums, and more if it reduces in bf16") {
  Scenario s = thin_gpt2();
  s.steps = 20, s.world = 8;
  s.knobs.precision = {Dtype::bf16, Dtype::bf16, Dtype::fp32};
  const SchemeResult dp = test::run(s, "dp");
  const double wide = worst_difference(train(s).ranks[0].losses, dp.ranks[0].losses);
  s.knobs.precision.reduce = Dtype::bf16;
  const double narrow = worst_difference(train(s, {{"grad_reduce_in_fp32", "false"}}).ranks[0].losses, dp.ranks[0].losses);
  MESSAGE("worst relative difference of a loss: " << wide << " reduced in fp32, " << narrow << " in bf16");
  CHECK(wide < 2e-3);
  CHECK(narrow < 2e-2);
  CHECK(narrow > wide);
}

TEST_CASE("Megatron in full, as a twin and without numerics takes the same seconds and bytes") {
  Scenario s = thin_gpt2();
  s.world = 4, s.knobs.accumulation = 2, s.knobs.clip = 1;
  s.transformer->twin_hidden = 8, s.transformer->twin_heads = 2, s.transformer->twin_vocab = 5, s.transformer->twin_sequence = 3;
  for (const Words& words : {Words{}, plain, overlapped}) {
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

TEST_CASE("Megatron without one of its waits is told which") {
  Scenario s = thin_gpt2();
  s.knobs.step_barrier = false;
  check_missing_waits_are_named(s, "megatron_distributed_optimizer", overlapped,
                                {{Edge::update_before_gather, Lane::gather, Lane::compute},
                                 {Edge::parameters_before_use, Lane::compute, Lane::gather},
                                 {Edge::gradient_before_reduction, Lane::reduce, Lane::compute},
                                 {Edge::reduction_before_update, Lane::compute, Lane::reduce}});
}

TEST_CASE("Megatron refuses options that contradict each other, as its arguments do, and types that it does not combine") {
  Scenario s = thin_gpt2();
  CHECK(refusal(s, {{"overlap_param_gather", "true"}}).find("overlap_grad_reduce: true") != std::string::npos);
  CHECK(refusal(s, plain + Words{{"num_distributed_optimizer_instances", "3"}}).find("need use_distributed_optimizer: true") !=
        std::string::npos);
  CHECK(refusal(s, {{"overlap_grad", "true"}}).find("unknown option; known options: use_distributed_optimizer") !=
        std::string::npos);
  CHECK(refusal(s, {{"bucket_size", "0"}}).find("a whole number of at least 1") != std::string::npos);
  s.knobs.precision = {Dtype::bf16, Dtype::bf16, Dtype::fp32};
  CHECK(refusal(s, {{"grad_reduce_in_fp32", "false"}}).find("precision.reduce asks for another") != std::string::npos);
  s.knobs.precision.master = false;
  CHECK(refusal(s, {}).find("precision.master: fp32") != std::string::npos);
  s.knobs.precision = {Dtype::bf16, Dtype::fp32, Dtype::fp32};
  CHECK(refusal(s, {}).find("precision.grad") != std::string::npos);
}

TEST_CASE("Megatron's timeline tells of every bucket") {
  Scenario s = gpt2_large();
  s.tells_timeline = true;
  int reductions = 0, gathers = 0;
  for (const TimelineEntry& entry : train(s, {{"overlap_grad_reduce", "true"}, {"overlap_param_gather", "true"}}).timeline) {
    reductions += entry.what == "reduce_scatter, in place" && entry.lane == Lane::reduce;
    gathers += entry.what.starts_with("all_gather of bucket");
  }
  CHECK(reductions > 10);
  CHECK(gathers == reductions);
}
