// fsdp1: it trains as dp does with every strategy, names the waits that it lacks, and refuses what it does not take.
#include <doctest/doctest.h>

#include "core/error.h"
#include "systems/checks.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

SchemeResult train(const Scenario& s, const Words& words = {}) { return test::train(s, "fsdp1", words); }

std::string refusal(const Scenario& s, const Words& words) { return error_of(s, "fsdp1", words); }

Scenario in_bf16() {
  Scenario s = thin_gpt2();
  s.steps = 20, s.world = 8;
  s.knobs.precision = {Dtype::bf16, Dtype::bf16, Dtype::fp32};
  return s;
}

double worst_loss(const Scenario& s, const Words& words) {
  return worst_difference(train(s, words).ranks[0].losses, test::run(s, "dp").ranks[0].losses);
}

}  // namespace

TEST_CASE("fsdp1 in fp32 follows the losses of dp within 1e-5 over 100 steps, and on two ranks it is dp to the bit") {
  Scenario s = thin_gpt2();
  s.steps = 100;
  double worst = 0;
  for (const int world : {1, 2, 3, 8}) {
    CAPTURE(world);
    s.world = world;
    const SchemeResult of_dp = test::run(s, "dp");
    for (const char* strategy : {"FULL_SHARD", "NO_SHARD"}) {
      const SchemeResult ours = train(s, {{"sharding_strategy", strategy}});
      worst = std::max(worst, worst_difference(ours.ranks[0].losses, of_dp.ranks[0].losses));
      CHECK(ours.ranks[0].losses.back() < ours.ranks[0].losses.front());
      if (world <= 2) CHECK(ours.theta == of_dp.theta);  // a sum of two has one order, and a half is exact
    }
  }
  MESSAGE("worst relative difference of a loss: " << worst);
  CHECK(worst < 1e-5);
}

TEST_CASE("fsdp1 with micro-batches, clipping, meshes and every strategy follows dp, with the same bits on threads") {
  for (const bool tied : {true, false})
    for (const auto& [world, shards, words] : std::vector<std::tuple<int, int, Words>>{
             {3, 0, {}},
             {3, 0, {{"backward_prefetch", "BACKWARD_POST"}, {"forward_prefetch", "true"}, {"no_sync", "true"}}},
             {4, 0, {{"sharding_strategy", "SHARD_GRAD_OP"}, {"backward_prefetch", "None"}, {"limit_all_gathers", "false"}}},
             {3, 0, {{"sharding_strategy", "SHARD_GRAD_OP"}, {"no_sync", "true"}, {"use_orig_params", "true"}}},
             {3, 0, {{"sharding_strategy", "NO_SHARD"}}},
             {3, 0, {{"sharding_strategy", "NO_SHARD"}, {"no_sync", "true"}}},
             {6, 3, {{"sharding_strategy", "HYBRID_SHARD"}, {"use_orig_params", "true"}}},
             {4, 2, {{"sharding_strategy", "_HYBRID_SHARD_ZERO2"}, {"no_sync", "true"}, {"forward_prefetch", "true"}}},
             {3, 0, {{"auto_wrap_policy", "size_based_auto_wrap_policy"}, {"min_num_params", "1700"}}},
             {3,
              0,
              {{"auto_wrap_policy", "size_based_auto_wrap_policy"},
               {"min_num_params", "1700"},
               {"backward_prefetch", "BACKWARD_POST"}}},
             {3, 0, {{"auto_wrap_policy", "None"}}}}) {
      Scenario s = thin_gpt2(tied);
      s.world = world, s.knobs.shards = shards, s.knobs.accumulation = 3, s.knobs.clip = 0.5f, s.steps = 5;
      check_follows_dp(s, "fsdp1", words, {1, 2, 3});
    }
}

TEST_CASE("fsdp1 trains perceptrons, a unit per layer") {
  Scenario s = small_scenario();
  s.knobs.streams = 3;
  CHECK(worst_loss(s, {}) < 1e-5);
  CHECK(collectives(train(s), Verb::all_gather).size() == 6);
  CHECK(collectives(train(s), Verb::reduce_scatter).size() == 3);
}

TEST_CASE("use_orig_params changes what the optimizer sees and where parameters begin, but no number on two ranks") {
  Scenario s = thin_gpt2();
  s.world = 2;
  const SchemeResult flat = train(s), orig = train(s, {{"use_orig_params", "true"}});
  CHECK(flat.theta == orig.theta);
  // In fp32 16 bytes are four elements, and every matrix and vector of this model has a multiple of four, so nothing is padded.
  CHECK(resident_of(orig.ranks[0], Band::param) == resident_of(flat.ranks[0], Band::param));
  // With 21 hidden units a vector of 21 is followed by 3 elements of padding.
  s.transformer->shape.hidden = 21, s.transformer->shape.heads = s.transformer->shape.kv_heads = 3,
  s.transformer->shape.head_dim = 7;
  s.numerics = Numerics::off;
  const auto gathered = [&](const Words& words) { return collectives(train(s, words), Verb::all_gather)[1].size / 4; };
  std::int64_t plain = 0, aligned = 0;
  for (const int count : {21, 21, 21 * 63, 63, 21 * 21, 21, 21, 21, 21 * 44, 44, 44 * 21, 21}) {
    aligned = (aligned + 3) / 4 * 4 + count;
    plain += count;
  }
  CHECK(gathered({}) == (plain + 1) / 2 * 2);
  CHECK(gathered({{"use_orig_params", "true"}}) == (aligned + 1) / 2 * 2);
  CHECK(aligned > plain);
}

TEST_CASE("fsdp1 in bf16 differs from dp in fp32 reduction only by the order of sums, and more if it reduces in bf16") {
  for (const char* strategy : {"FULL_SHARD", "NO_SHARD"}) {
    const double wide = worst_loss(in_bf16(), {{"sharding_strategy", strategy}});
    const double narrow = worst_loss(in_bf16(), {{"sharding_strategy", strategy}, {"reduce_dtype", "bf16"}});
    MESSAGE(std::string(strategy) << ": worst difference of a loss: " << wide << " reduced in fp32, " << narrow << " in bf16");
    CHECK(wide < 2e-3);
    CHECK(narrow < 2e-2);
    CHECK(narrow > wide);
  }
}

TEST_CASE("keep_low_precision_grads halves the gradients that the optimizer reads, and rounds them") {
  for (const char* strategy : {"FULL_SHARD", "NO_SHARD"}) {
    Scenario s = in_bf16();
    s.knobs.accumulation = 2;
    const Words kept{{"sharding_strategy", strategy}, {"keep_low_precision_grads", "true"}};
    CHECK(train(s, kept).theta != train(s, {{"sharding_strategy", strategy}}).theta);
    CHECK(worst_loss(s, kept) < 2e-2);
    s.numerics = Numerics::off, s.knobs.accumulation = 1;
    const auto at_the_update = [&](const Words& words) {
      const RankResult rank = train(s, words).ranks[0];
      std::int64_t held = 0, at_the_end = 0;
      for (const LedgerEntry& entry : rank.entries)
        if (entry.band == Band::grad) {
          held += entry.bytes;
          if (held > 0) at_the_end = held;
          if (held == 0) break;
        }
      return at_the_end;
    };
    CHECK(at_the_update(kept) * 2 == at_the_update({{"sharding_strategy", strategy}}));
  }
}

TEST_CASE("fsdp1 in full, as a twin and without numerics takes the same seconds and bytes") {
  Scenario s = thin_gpt2();
  s.world = 4, s.knobs.shards = 2, s.knobs.accumulation = 2, s.knobs.clip = 1;
  s.transformer->twin_hidden = 8, s.transformer->twin_heads = 2, s.transformer->twin_vocab = 5, s.transformer->twin_sequence = 3;
  for (const Words& words : {Words{}, Words{{"sharding_strategy", "HYBRID_SHARD"}, {"use_orig_params", "true"}},
                             Words{{"sharding_strategy", "NO_SHARD"}}}) {
    s.numerics = Numerics::full;
    const SchemeResult full = train(s, words);
    for (const Numerics numerics : {Numerics::twin, Numerics::off}) {
      s.numerics = numerics;
      const SchemeResult thin = train(s, words);
      check_same_costs(thin, full);
      if (numerics == Numerics::twin) CHECK(worst_loss(s, words) < 1e-5);
    }
  }
}

TEST_CASE("fsdp1 without one of its waits is told which") {
  for (const char* strategy : {"FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD"}) {
    Scenario s = thin_gpt2();
    s.world = 4, s.knobs.shards = 2, s.knobs.step_barrier = false;
    check_missing_waits_are_named(s, "fsdp1", {{"sharding_strategy", strategy}},
                                  {{Edge::update_before_gather, Lane::gather, Lane::compute},
                                   {Edge::gather_before_use, Lane::compute, Lane::gather},
                                   {Edge::gradient_before_reduction, Lane::reduce, Lane::compute},
                                   {Edge::reduction_before_update, Lane::compute, Lane::reduce}});
  }
}

TEST_CASE("fsdp1 refuses options that it does not have, values that they do not take, and what contradicts") {
  static const Registry registry = built_in_schemes();
  const auto made = [](const Words& words) { return choice_of(*registry.find("fsdp1"), words).make(); };
  CHECK_THROWS_WITH(made({{"reshard_after_forward", "true"}}),
                    doctest::Contains("unknown option; known options: sharding_strategy"));
  CHECK_THROWS_WITH(made({{"sharding_strategy", "full_shard"}}), doctest::Contains("one of FULL_SHARD, SHARD_GRAD_OP, NO_SHARD"));
  CHECK_THROWS_WITH(made({{"backward_prefetch", "true"}}), doctest::Contains("one of BACKWARD_PRE, BACKWARD_POST, None"));
  CHECK_THROWS_WITH(made({{"limit_all_gathers", "2"}}), doctest::Contains("true or false"));
  CHECK_THROWS_WITH(made({{"buffer_dtype", "bf16"}}), doctest::Contains("one of None"));
  CHECK_THROWS_WITH(made({{"offload_params", "true"}}), doctest::Contains("offload_params: is not modelled; use false"));
  CHECK_THROWS_WITH(made({{"min_num_params", "5"}}), doctest::Contains("belongs to auto_wrap_policy: size_based_auto_wrap_policy"));
  Scenario s = thin_gpt2();
  CHECK(refusal(s, {{"param_dtype", "bf16"}}).find("write precision: {param: bf16}") != std::string::npos);
  CHECK(refusal(s, {{"sharding_strategy", "HYBRID_SHARD"}}).find("write mesh: {replicas: R, shards: S}") != std::string::npos);
  s.knobs.shards = 1;
  CHECK(refusal(s, {{"sharding_strategy", "HYBRID_SHARD"}}).find("the replicas drift apart") != std::string::npos);
  // The tied table is large enough for a unit, as the embedding's and as the head's.
  CHECK(refusal(s, {{"auto_wrap_policy", "size_based_auto_wrap_policy"}, {"min_num_params", "500"}})
            .find("the tied parameter embedding.tokens would be in two units") != std::string::npos);
  s.knobs.precision.param = Dtype::bf16;
  CHECK(refusal(s, {}).find("write precision: {grad: bf16}") != std::string::npos);
}
