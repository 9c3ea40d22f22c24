// fsdp2: what it gathers and reduces, what it holds and when, and that it trains as dp does.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "app/metrics.h"
#include "core/error.h"
#include "systems/checks.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

SchemeChoice fsdp2(const Words& words) {
  static const Registry registry = built_in_schemes();
  return choice_of(*registry.find("fsdp2"), words);
}

SchemeResult train(const Scenario& s, const Words& words = {}) { return test::train(s, "fsdp2", words); }

std::string refusal(const Scenario& s, const Words& words) { return error_of(s, "fsdp2", words); }

Scenario reduced_in_fp32() {
  Scenario s = gpt2_large();
  s.knobs.precision.reduce = Dtype::fp32;
  return s;
}

Scenario small_transformer(bool tied = true) {
  Scenario s = thin_gpt2(tied);
  s.steps = 3;
  return s;
}

constexpr std::int64_t h = 1280, block = 12 * h * h + 13 * h, root = (50304 + 1024 + 2) * h, all = 36 * block + root;

/// Elements of a group's flat buffer by the rule: every parameter's first dimension in n chunks of ceil(d0 / n).
std::int64_t padded(const std::vector<std::pair<std::int64_t, std::int64_t>>& parameters, int n) {
  std::int64_t sum = 0;
  for (const auto& [rows, cols] : parameters) sum += (rows + n - 1) / n * cols * n;
  return sum;
}

}  // namespace

TEST_CASE("fsdp2 gathers GPT-2 Large by 39.35 MB a block and 131.4 MB for the root, and reduces each group once") {
  const SchemeResult result = train(reduced_in_fp32());
  const std::vector<Span> gathers = collectives(result, Verb::all_gather), reductions = collectives(result, Verb::reduce_scatter);
  REQUIRE(gathers.size() == 1 + 36 + 36);
  for (std::size_t i = 0; i < gathers.size(); ++i) {
    CHECK(gathers[i].unit == (i == 0 ? 36 : i <= 36 ? int(i) - 1 : 72 - int(i)));
    CHECK(gathers[i].size == (i == 0 ? 131'404'800 : 39'354'880));
    CHECK(gathers[i].lane == Lane::gather);
  }
  CHECK(bytes_of_all(gathers) == 2 * all + 2 * (all - root));
  REQUIRE(reductions.size() == 37);
  for (std::size_t i = 0; i < reductions.size(); ++i) {
    CHECK(reductions[i].unit == (i == 36 ? 36 : 35 - int(i)));
    CHECK(reductions[i].size == 4 * (i == 36 ? root : block));  // fp32
    CHECK(reductions[i].lane == Lane::reduce);
  }
  CHECK(bytes_of_all(collectives(result, Verb::all_reduce)) == 0);
}

TEST_CASE("fsdp2 holds 12 P / N between steps, and gathers at most the root twice, a block and its cast shards at once") {
  Scenario s = reduced_in_fp32();
  const SchemeResult result = train(s);
  CHECK(resident_of(result.ranks[0], Band::param) == 4 * all / 8);
  CHECK(resident_of(result.ranks[0], Band::opt) == 8 * all / 8);
  for (const Band band : {Band::grad, Band::gathered, Band::bucket}) CHECK(resident_of(result.ranks[0], band) == 0);
  // The root's output lives until block 0's copy-out, whose gather has begun: output and parameters of the root, output of block 0.
  CHECK(most(result, Band::gathered) == 2 * (2 * root + block) + 2 * block / 8);
  // One group's: compute waits for the last reduction before it makes the next input.
  CHECK(most(result, Band::bucket) == 4 * root);

  // The worst instant is the end of block 1's backward: its parameters and gradients, block 0's gathered buffer, the root's
  // parameters and the gradients of head and last norm; block 2's reduction still reads its input.
  const Peak& peak = result.ranks[0].model_state_peak;
  CHECK(peak.of(Band::gathered) == 2 * (root + 2 * block));
  CHECK(peak.of(Band::bucket) == 4 * block);
  CHECK(peak.of(Band::grad) == 34 * 4 * block / 8 + 2 * block + 2 * (50304 + 2) * h);

  // Kept after forward, the parameters are there in full, and in backward nothing is gathered.
  const SchemeResult kept = train(s, {{"reshard_after_forward", "false"}});
  CHECK(bytes_of_all(collectives(kept, Verb::all_gather)) == 2 * all);
  CHECK(most(kept, Band::gathered) >= 2 * all);
  // Freed, the root is gathered again, too.
  CHECK(bytes_of_all(collectives(train(s, {{"reshard_after_forward", "true"}}), Verb::all_gather)) == 4 * all);
}

TEST_CASE("fsdp2 with an int reshard_after_forward gathers among so many ranks in backward, from pieces it has kept") {
  Scenario s = reduced_in_fp32();
  const SchemeResult result = train(s, {{"reshard_after_forward", "2"}});
  const std::vector<Span> gathers = collectives(result, Verb::all_gather);
  REQUIRE(gathers.size() == 2 * 37);
  for (std::size_t i = 0; i < gathers.size(); ++i)
    CHECK(gathers[i].bytes == (i < 37 ? gathers[i].size / 8 * 7 : gathers[i].size / 2));
  CHECK(most(result, Band::gathered) >= 2 * all / 2);  // pieces of a half
  // A factor of the shards is needed; all of them mean true, 1 means false.
  CHECK(refusal(s, {{"reshard_after_forward", "3"}}).find("has to be a factor of the 8 shards") != std::string::npos);
  CHECK(bytes_of_all(collectives(train(s, {{"reshard_after_forward", "8"}}), Verb::all_gather)) == 4 * all);
  CHECK(bytes_of_all(collectives(train(s, {{"reshard_after_forward", "1"}}), Verb::all_gather)) == 2 * all);
}

TEST_CASE("fsdp2 on a 2-D mesh gathers and scatters within a replica, and all-reduces the shards between replicas") {
  Scenario s = reduced_in_fp32();
  s.knobs.shards = 4;
  const SchemeResult result = train(s);
  CHECK(resident_of(result.ranks[0], Band::param) == 4 * all / 4);
  for (const Span& span : collectives(result, Verb::all_gather)) CHECK(span.bytes == span.size / 4 * 3);
  const std::vector<Span> reductions = collectives(result, Verb::all_reduce);
  REQUIRE(reductions.size() == 37);
  for (const Span& span : reductions) CHECK(span.size == (span.unit == 36 ? root : block));  // a quarter, fp32
  // Reduced in another type than the shards', what was all-reduced is held to the end of backward, beside the gradients. At the
  // worst instant block 0 is being reduced.
  CHECK(most(train(s, {{"reduce_dtype", "bf16"}}), Band::grad) == most(result, Band::grad) + 2 * 35 * block / 4);
}

TEST_CASE("fsdp2 sends what its rules say, to the byte, on every rank, for every world, with and without accumulation") {
  for (const int world : counted_worlds)
    for (const int micro_batches : {1, 3}) {
      CAPTURE(world);
      CAPTURE(micro_batches);
      Scenario s = small_transformer();
      s.world = world, s.steps = 2, s.numerics = Numerics::off, s.knobs.accumulation = micro_batches;
      s.fabric = Fidelity::ring, s.recorded_ranks = world;
      static const PlatformFile many{IdealGpus{.gpus = 64}};
      s.platform = many.path();
      const std::int64_t of_root = padded({{29, 20}, {12, 20}, {20, 1}, {20, 1}}, world);
      const std::int64_t of_block = padded(
          {{20, 1}, {20, 1}, {20, 60}, {60, 1}, {20, 20}, {20, 1}, {20, 1}, {20, 1}, {20, 44}, {44, 1}, {44, 20}, {20, 1}}, world);
      const std::int64_t gathers = of_root + 4 * of_block, reductions = of_root + 2 * of_block;
      for (const bool syncs : {true, false}) {
        const std::int64_t times = syncs ? micro_batches : 1;
        const SchemeResult result = train(s, {{"set_requires_gradient_sync", syncs ? "true" : "false"}});
        for (const RankResult& rank : result.ranks)
          CHECK(rank.traffic_bytes == s.steps * 4 * (micro_batches * gathers + times * reductions) / world * (world - 1));
      }
    }
}

TEST_CASE("fsdp2 in fp32 follows the losses of dp within 1e-5 over 100 steps") {
  Scenario s = small_transformer();
  s.steps = 100;
  double worst = 0;
  for (const int world : {1, 2, 3, 8}) {
    CAPTURE(world);
    s.world = world;
    const SchemeResult of_dp = test::run(s, "dp"), ours = train(s);
    worst = std::max(worst, worst_difference(ours.ranks[0].losses, of_dp.ranks[0].losses));
    CHECK(ours.ranks[0].losses.back() < ours.ranks[0].losses.front());
  }
  MESSAGE("worst relative difference of a loss: " << worst);
  CHECK(worst < 1e-5);
}

TEST_CASE("fsdp2 with micro-batches, clipping, meshes and every way to reshard follows dp, with the same bits on threads") {
  for (const bool tied : {true, false})
    for (const auto& [world, shards, words] : std::vector<std::tuple<int, int, Words>>{
             {4, 0, {}},
             {4, 0, {{"reshard_after_forward", "2"}}},
             {6, 0, {{"reshard_after_forward", "3"}, {"set_reshard_after_backward", "false"}}},
             {4, 0, {{"reshard_after_forward", "false"}, {"set_requires_gradient_sync", "false"}}},
             {4, 2, {{"reshard_after_forward", "true"}, {"set_reshard_after_backward", "false"}}},
             {6, 3, {{"set_requires_all_reduce", "false"}}},
             {3, 1, {{"set_requires_gradient_sync", "false"}}}}) {
      Scenario s = small_transformer(tied);
      s.world = world, s.knobs.shards = shards, s.knobs.accumulation = 3, s.knobs.clip = 0.5f, s.steps = 5;
      check_follows_dp(s, "fsdp2", words, {1, 2, 3, 4});
    }
}

TEST_CASE("fsdp2 trains perceptrons, a group per layer") {
  Scenario s = small_scenario();
  s.knobs.streams = 3;
  const SchemeResult ours = train(s);
  CHECK(worst_difference(ours.ranks[0].losses, test::run(s, "dp").ranks[0].losses) < 1e-5);
  CHECK(collectives(ours, Verb::all_gather).size() == 6);
  CHECK(collectives(ours, Verb::reduce_scatter).size() == 3);
}

TEST_CASE("fsdp2 in bf16 differs from dp in fp32 reduction only by the order of sums, and more if it reduces in bf16") {
  Scenario s = small_transformer();
  s.steps = 20, s.world = 8;
  s.knobs.precision = {Dtype::bf16, Dtype::bf16, Dtype::fp32};
  const SchemeResult of_dp = test::run(s, "dp");
  const double wide = worst_difference(train(s).ranks[0].losses, of_dp.ranks[0].losses);
  const double narrow = worst_difference(train(s, {{"reduce_dtype", "bf16"}}).ranks[0].losses, of_dp.ranks[0].losses);
  MESSAGE("worst relative difference of a loss: " << wide << " reduced in fp32, " << narrow << " in bf16");
  CHECK(wide < 2e-3);
  CHECK(narrow < 2e-2);
  CHECK(narrow > wide);
}

TEST_CASE("fsdp2 in full, as a twin and without numerics takes the same seconds and bytes") {
  Scenario s = small_transformer();
  s.world = 4, s.knobs.shards = 4, s.knobs.accumulation = 2, s.knobs.clip = 1;
  s.transformer->twin_hidden = 8, s.transformer->twin_heads = 2, s.transformer->twin_vocab = 5, s.transformer->twin_sequence = 3;
  for (const Words& words : {Words{}, Words{{"reshard_after_forward", "2"}}}) {
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

TEST_CASE("with a stream of its own, fsdp2's copy-in of the next group runs beside the gather of the one before") {
  Scenario s = gpt2_large();
  const auto copies_beside_gathers = [&](int streams) {
    s.knobs.streams = streams;
    const SchemeResult result = train(s, Words{});
    const std::vector<Span> gathers = collectives(result, Verb::all_gather);
    int beside = 0;
    for (const Span& copy : result.ranks[0].spans)
      if (copy.verb == Verb::all_gather && copy.op != Span::collective && copy.lane != Lane::compute)
        for (const Span& gather : gathers) beside += copy.begin < gather.end && gather.begin < copy.begin;
    return beside;
  };
  CHECK(copies_beside_gathers(3) == 0);
  CHECK(copies_beside_gathers(4) > 30);
}

TEST_CASE("fsdp2 without one of its waits is told which") {
  Scenario s = small_transformer();
  s.world = 4, s.knobs.shards = 2;  // an all-reduce comes behind the last reduce-scatter
  s.knobs.step_barrier = false;
  check_missing_waits_are_named(s, "fsdp2", {},
                                {{Edge::update_before_gather, Lane::gather, Lane::compute},
                                 {Edge::gather_before_use, Lane::compute, Lane::gather},
                                 {Edge::release_before_gather, Lane::gather, Lane::compute},
                                 {Edge::gradient_before_reduction, Lane::reduce, Lane::compute},
                                 {Edge::reduction_before_backward, Lane::compute, Lane::reduce},
                                 {Edge::reduction_before_update, Lane::compute, Lane::reduce}});
}

TEST_CASE("fsdp2 refuses options that it does not have and values that they do not take") {
  CHECK_THROWS_WITH(fsdp2({{"forward_prefetch", "true"}}),
                    doctest::Contains("unknown option; known options: reshard_after_forward"));
  for (const char* value : {"0", "-1", "2.5", "yes", ""})
    CHECK_THROWS_WITH(fsdp2({{"reshard_after_forward", value}}), doctest::Contains("None, or true, or false"));
  CHECK_THROWS_WITH(fsdp2({{"reduce_dtype", "int8"}}), doctest::Contains("one of None, bf16, fp32"));
  CHECK_THROWS_WITH(fsdp2({{"cast_forward_inputs", "1"}}), doctest::Contains("true or false"));
  const Scenario s = small_transformer();
  CHECK(refusal(s, {{"param_dtype", "bf16"}}).find("write precision: {param: bf16}") != std::string::npos);
  CHECK(refusal(s, {{"output_dtype", "bf16"}}).find("write precision: {param: bf16}") != std::string::npos);
}
