// deepspeed, stages 0 to 2: they train as dp does, whatever the options; and what is refused.
#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>

#include "core/error.h"
#include "systems/deepspeed.h"
#include "systems/deepspeed_runs.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

std::string in_words(const Words& words) {
  std::string text;
  for (const auto& [name, value] : words) text += name + " " + value + "; ";
  return text;
}

Options options_of(const Words& words) {
  Options options(DeepSpeed::options());
  for (const auto& [name, value] : words) options.set(name, value);
  return options;
}

std::string refusal(const Words& words) {
  try {
    DeepSpeed{options_of(words)};
    return "accepted";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("stages 0 to 2 train as dp does, on simgrid and on threads, with any ranks, micro-batches, clipping and options") {
  double worst = 0;
  for (const bool tied : {true, false})
    for (const int world : {1, 2, 3, 8})
      for (const int accumulation : {1, 2}) {
        Scenario s = thin_gpt2(tied);
        s.world = world, s.knobs.accumulation = accumulation;
        s.knobs.clip = accumulation == 2 ? 0.5f : 0.f;
        s.knobs.streams = 1 + world % 3;
        s.knobs.adam.passes = AdamPasses(world % 3);
        const SchemeResult dp = test::run(s, "dp");
        for (const int number : {0, 1, 2})
          for (const Words& words : {Words{}, with(overlap, {{"reduce_bucket_size", "500"}})}) {
            INFO("tied " << tied << ", world " << world << ", accumulation " << accumulation << ", "
                         << in_words(stage(number, words)));
            const SchemeResult simgrid = run(s, stage(number, words));
            worst = std::max(worst, worst_difference(simgrid.ranks[0].losses, dp.ranks[0].losses));
            s.backend = "threads";
            const SchemeResult threads = run(s, stage(number, words));
            CHECK(threads.ranks[0].losses == simgrid.ranks[0].losses);
            CHECK(threads.theta == simgrid.theta);
            s.backend = "simgrid";
          }
      }
  MESSAGE("worst relative difference of a loss: " << worst);
  CHECK(worst < 1e-5);
}

TEST_CASE("100 steps of stages 0 to 2 stay within 1e-5 of dp's loss") {
  Scenario s = thin_gpt2();
  s.steps = 100, s.world = 4, s.knobs.streams = 3, s.recorded_ranks = 1;
  const SchemeResult dp = test::run(s, "dp");
  for (const int number : {0, 1, 2}) {
    const SchemeResult result = run(s, stage(number, overlap));
    const double worst = worst_difference(result.ranks[0].losses, dp.ranks[0].losses);
    MESSAGE("stage " << number << ": worst relative difference of a loss " << worst);
    CHECK(worst < 1e-5);
  }
}

TEST_CASE("on two ranks, where there is one order of summation, stages 0 to 2 leave dp's theta to the bit") {
  Scenario s = thin_gpt2();
  s.world = 2, s.steps = 10;
  const SchemeResult dp = test::run(s, "dp");
  for (const int number : {0, 1, 2}) CHECK(run(s, stage(number, overlap)).theta == dp.theta);
}

TEST_CASE("options that only say when and how give stage 2 the same numbers") {
  Scenario s = thin_gpt2();
  s.knobs.streams = 3, s.knobs.accumulation = 2, s.knobs.clip = 0.5f;
  const SchemeResult expected = run(s, stage(2));
  for (const Words& words :
       {overlap, Words{{"round_robin_gradients", "true"}}, Words{{"reduce_scatter", "false"}}, Words{{"reduce_bucket_size", "0"}},
        Words{{"check_grad_overflow", "true"}}, Words{{"contiguous_gradients", "false"}, {"reduce_bucket_size", "700"}},
        with(overlap, {{"contiguous_gradients", "false"}, {"reduce_bucket_size", "700"}}),
        Words{{"reduce_scatter", "false"}, {"prescale_gradients", "true"}},
        Words{{"reduce_scatter", "false"}, {"gradient_predivide_factor", "2"}},
        with(overlap, {{"reduce_bucket_size", "700"}, {"round_robin_gradients", "true"}})})
    for (const int number : {1, 2}) {
      INFO(in_words(stage(number, words)));
      CHECK(worst_difference(run(s, stage(number, words)).ranks[0].losses, expected.ranks[0].losses) < 1e-5);
    }
}

TEST_CASE("with 16-bit gradients the loss differs from fp32's by what 8 bits of mantissa lose") {
  Scenario s = thin_gpt2();
  s.steps = 20;
  const SchemeResult exact = test::run(s, "dp");
  s.knobs.precision = {Dtype::bf16, Dtype::bf16, Dtype::bf16};
  const SchemeResult dp = test::run(s, "dp");
  for (const int number : {0, 1, 2}) {
    const SchemeResult result = run(s, stage(number, overlap));
    MESSAGE("stage " << number << " in bf16: " << worst_difference(result.ranks[0].losses, exact.ranks[0].losses)
                     << " from dp in fp32, " << worst_difference(result.ranks[0].losses, dp.ranks[0].losses) << " from dp in bf16");
    CHECK(worst_difference(result.ranks[0].losses, exact.ranks[0].losses) < 0.02);
  }
  const SchemeResult summed_in_fp32 = run(s, stage(1, {{"grad_accum_dtype", "fp32"}}));
  CHECK(worst_difference(summed_in_fp32.ranks[0].losses, exact.ranks[0].losses) < 0.02);
  Scenario wide = s;
  wide.knobs.precision.reduce = Dtype::fp32;
  const SchemeResult result = run(wide, stage(2, overlap));
  CHECK(worst_difference(result.ranks[0].losses, exact.ranks[0].losses) < 0.02);
  CHECK(collectives(result, Verb::all_reduce)[0].size == 2 * collectives(run(s, stage(2, overlap)), Verb::all_reduce)[0].size);
}

TEST_CASE("stage 1 with fp32 sums and fp32 reduction adds micro-batches as dp does with fp32 gradients") {
  Scenario s = thin_gpt2();
  s.steps = 10, s.knobs.accumulation = 4, s.knobs.clip = 0.5f;
  s.knobs.precision = {Dtype::bf16, Dtype::fp32, Dtype::fp32};
  const SchemeResult dp = test::run(s, "dp");
  s.knobs.precision = {Dtype::bf16, Dtype::bf16, Dtype::fp32};
  const auto difference = [&](const Words& words) {
    return worst_difference(run(s, stage(1, words)).ranks[0].losses, dp.ranks[0].losses);
  };
  const double in_fp32 = difference({{"grad_accum_dtype", "fp32"}}), in_bf16 = difference({});
  MESSAGE("sums in fp32: " << in_fp32 << ", in bf16: " << in_bf16);
  CHECK(in_fp32 < 0.005);
  s.backend = "threads";
  CHECK(difference({{"grad_accum_dtype", "fp32"}}) == in_fp32);
}

TEST_CASE("numerics full, twin and off give stages 0 to 2 the same seconds and bytes, to the bit") {
  Scenario s = thin_gpt2();
  s.world = 8, s.knobs.streams = 3, s.knobs.clip = 1;
  for (const int number : {0, 1, 2}) {
    const Words words = stage(number, with(overlap, {{"reduce_bucket_size", "700"}}));
    const auto with_numerics = [&](Numerics numerics) {
      Scenario other = s;
      other.numerics = numerics;
      other.transformer->twin_hidden = 8, other.transformer->twin_heads = 2, other.transformer->twin_vocab = 11;
      other.transformer->twin_sequence = 5;
      return run(other, words);
    };
    const SchemeResult full = with_numerics(Numerics::full);
    for (const Numerics numerics : {Numerics::twin, Numerics::off}) {
      const SchemeResult other = with_numerics(numerics);
      check_same_costs(other, full);
      if (numerics == Numerics::twin) CHECK(std::isfinite(other.ranks[0].losses.back()));
    }
  }
}

TEST_CASE("what stage 2 leaves out is found by the hazard checker: each wait in turn") {
  Scenario s = thin_gpt2();
  s.knobs.streams = 3, s.numerics = Numerics::off, s.knobs.step_barrier = false;
  const Words words = stage(2, with(overlap, {{"reduce_bucket_size", "700"}}));
  CHECK_NOTHROW(run(s, words));
  for (const Edge edge : {Edge::gradient_before_reduction, Edge::reduction_before_backward, Edge::reduction_before_update,
                          Edge::update_before_gather, Edge::parameters_before_use}) {
    CAPTURE(int(edge));
    s.knobs.omitted = edge;
    CHECK_THROWS_AS(run(s, words), IllegalStep);
  }
}

TEST_CASE("options are DeepSpeed's: unknown ones and bad values are refused, those of another stage are not") {
  const Options options = options_of({});
  CHECK(options.integer("stage") == 0);
  CHECK(options.integer("reduce_bucket_size") == 500'000'000);
  CHECK(options.text("overlap_comm") == "None");
  for (const auto& [name, value] : Words{{"zero_stage", "1"},
                                         {"stage", "4"},
                                         {"reduce_bucket_size", "-1"},
                                         {"reduce_bucket_size ", "1.5"},
                                         {"overlap_comm", "yes"}})
    CHECK_THROWS_AS(options_of({{name, value}}), std::invalid_argument);
  CHECK(refusal(stage(1, {{"stage3_prefetch_bucket_size", "0"}})) == "accepted");
  CHECK(refusal(stage(0, {{"use_multi_rank_bucket_allreduce", "false"}})) == "accepted");
  CHECK(has(refusal(stage(2, {{"gradient_predivide_factor", "8"}})), "gradient_predivide_factor: DeepSpeed takes no other"));
  CHECK(has(refusal(stage(2, {{"prescale_gradients", "true"}})), "prescale_gradients: DeepSpeed does not take it"));
}

TEST_CASE("types that DeepSpeed does not combine are refused with the remedy") {
  Scenario s = thin_gpt2();
  s.knobs.precision = {Dtype::bf16, Dtype::fp32, Dtype::fp32};
  for (const int number : {0, 2}) CHECK_THROWS_WITH_AS(run(s, stage(number)), doctest::Contains("precision.grad"), ScenarioError);
  s.knobs.precision = {Dtype::bf16, Dtype::bf16, Dtype::bf16};
  CHECK_THROWS_WITH_AS(run(s, stage(2, {{"grad_accum_dtype", "fp32"}})), doctest::Contains("grad_accum_dtype"), ScenarioError);
  s.knobs.precision = {};
  CHECK_THROWS_WITH_AS(run(s, stage(1, {{"grad_accum_dtype", "fp32"}})), doctest::Contains("grad_accum_dtype"), ScenarioError);
}
