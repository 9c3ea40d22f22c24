// What all real systems share with dp around the update: how Adam walks the tensors, what decays, loss scaling, the host's time.
#include <doctest/doctest.h>

#include <set>

#include "core/error.h"
#include "systems/systems.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

struct System {
  const char* scheme;
  Words words;
};
const System systems[] = {{"pytorch_ddp", {}},
                          {"torch_zero_redundancy_optimizer", {}},
                          {"fsdp1", {{"use_orig_params", "true"}}},
                          {"fsdp2", {}},
                          {"megatron_distributed_optimizer", {}},
                          {"nanotron_zero1", {}},
                          {"deepspeed", {{"stage", "0"}}},
                          {"deepspeed", {{"stage", "1"}, {"overlap_comm", "true"}}},
                          {"deepspeed", {{"stage", "2"}, {"use_multi_rank_bucket_allreduce", "false"}}},
                          {"deepspeed", {{"stage", "3"}}}};

std::string in_words(const System& system) {
  std::string text = system.scheme;
  for (const auto& [name, value] : system.words) text += ", " + name + " " + value;
  return text;
}

struct Walk {
  double seconds;              ///< of the last step
  std::int64_t temporary = 0;  ///< what Adam has of Band::workspace at most
};

Walk walk(Scenario s, const System& system, AdamPasses passes) {
  s.knobs.adam.passes = passes;
  const SchemeResult result = train(s, system.scheme, system.words);
  const RankResult& rank = result.ranks[0];
  Walk found{rank.step_end.back() - rank.step_begin.back()};
  std::int64_t now = 0;
  for (const LedgerEntry& entry : rank.entries)
    if (entry.band == Band::workspace && entry.cause == Verb::adam) found.temporary = std::max(found.temporary, now += entry.bytes);
  return found;
}

}  // namespace

TEST_CASE("fused is one kernel, foreach passes over the list with temporaries of all, for_loop tensor by tensor") {
  Scenario s = thin_gpt2();
  s.numerics = Numerics::off;
  s.prices.values.push_back({cost::facts_named("launch_seconds").front(), 1e-5, {}});
  const Walk fused = walk(s, systems[0], AdamPasses::fused), foreach = walk(s, systems[0], AdamPasses::foreach),
             loop = walk(s, systems[0], AdamPasses::for_loop);
  const std::int64_t parameters = train(s, "pytorch_ddp").parameters;
  CHECK(fused.temporary == 0);
  CHECK(foreach.temporary == 4 * parameters);
  CHECK(loop.temporary == 4 * 20 * 60);  // the largest tensor, a block's weights of query, key and value
  // Launches at 10 us each: the fused kernel, 7 passes, and 7 passes over each of 28 tensors.
  CHECK(foreach.seconds - fused.seconds == doctest::Approx(6e-5).epsilon(0.05));
  CHECK(loop.seconds - fused.seconds == doctest::Approx((7 * 28 - 1) * 1e-5).epsilon(0.05));
}

TEST_CASE("foreach, fused and for_loop leave the same bits in every system") {
  for (const System& system : systems) {
    CAPTURE(in_words(system));
    Scenario s = thin_gpt2();
    const SchemeResult fused = train(s, system.scheme, system.words);
    for (const AdamPasses passes : {AdamPasses::foreach, AdamPasses::for_loop}) {
      s.knobs.adam.passes = passes;
      CHECK(train(s, system.scheme, system.words).theta == fused.theta);
    }
  }
}

TEST_CASE("where only matrices decay, DDP and FSDP2 have two parameter groups and train as dp; DeepSpeed refuses") {
  Scenario s = thin_gpt2();
  s.world = 2, s.steps = 10;
  s.knobs.adam.weight_decay = 0.1f, s.knobs.adam.decoupled = true;
  const SchemeResult all_decay = run(s, "dp");
  s.knobs.decays_matrices_only = true;
  const SchemeResult dp = run(s, "dp");
  CHECK(dp.theta != all_decay.theta);
  CHECK(train(s, "pytorch_ddp").theta == dp.theta);
  for (const char* scheme : {"torch_zero_redundancy_optimizer", "fsdp2", "megatron_distributed_optimizer", "nanotron_zero1"})
    CHECK(train(s, scheme).theta == dp.theta);
  CHECK(train(s, "fsdp1", {{"use_orig_params", "true"}}).theta == dp.theta);
  CHECK_THROWS_WITH_AS(train(s, "fsdp1"), doctest::Contains("write use_orig_params: true"), ScenarioError);
  CHECK_THROWS_WITH_AS(train(s, "deepspeed"), doctest::Contains("optimizer.weight_decay_on: matrices"), ScenarioError);
}

TEST_CASE("a loss scale of a power of two changes no bit of any system in fp32") {
  for (const System& system : systems) {
    CAPTURE(in_words(system));
    Scenario s = thin_gpt2();
    s.knobs.clip = 0.5f;
    const SchemeResult plain = train(s, system.scheme, system.words);
    s.knobs.loss_scale = {.on = true, .initial = 1024.f};
    CHECK(train(s, system.scheme, system.words).theta == plain.theta);
  }
}

TEST_CASE("in fp16 a step whose gradients overflow is skipped by every system on every rank, and the scale falls as dp's") {
  for (const System& system : systems) {
    CAPTURE(in_words(system));
    Scenario s = thin_gpt2();
    s.steps = 16;
    s.knobs.precision = {Dtype::fp16, Dtype::fp16, Dtype::fp16};
    if (system.scheme == std::string("nanotron_zero1")) {
      CHECK_THROWS_WITH_AS(train(s, system.scheme), doctest::Contains("nanotron scales no loss"), ScenarioError);
      continue;
    }
    s.knobs.precision.master = system.scheme != std::string("torch_zero_redundancy_optimizer");
    s.knobs.loss_scale = {.on = true, .dynamic = true, .initial = std::ldexp(1.f, 24)};
    const SchemeResult dp = run(s, "dp"), simgrid = train(s, system.scheme, system.words);
    REQUIRE(simgrid.ranks[0].loss_scales.size() == 16);
    CHECK(simgrid.ranks[0].loss_scales.front() == std::ldexp(1.f, 23));  // the first step is skipped: 2^24 is beyond fp16
    CHECK(simgrid.ranks[0].updates.front() == 0);
    CHECK(simgrid.ranks[0].updates.back() >= 1);  // and then it trains
    CHECK(std::abs(std::log2(simgrid.ranks[0].loss_scales.back() / dp.ranks[0].loss_scales.back())) <=
          1);  // dividing at other places overflows elsewhere
    CHECK(worst_difference(simgrid.ranks[0].losses, dp.ranks[0].losses) < 2e-2);
    s.backend = "threads";
    const SchemeResult threads = train(s, system.scheme, system.words);
    CHECK(threads.theta == simgrid.theta);
    CHECK(threads.ranks[0].loss_scales == simgrid.ranks[0].loss_scales);
  }
}

TEST_CASE("the host's time per step reaches every system") {
  for (const System& system : systems) {
    CAPTURE(in_words(system));
    Scenario s = thin_gpt2();
    s.steps = 2;
    const SchemeResult plain = train(s, system.scheme, system.words);
    s.prices.values.push_back({cost::facts_named("step_host_seconds").front(), 5e-3, {}});
    const SchemeResult slow = train(s, system.scheme, system.words);
    CHECK(slow.ranks[0].step_end[1] - plain.ranks[0].step_end[1] > 5e-3);
  }
}

TEST_CASE("what a hook does has its own name, and the pass's operations keep theirs, in every system") {
  for (const System& system : systems) {
    CAPTURE(in_words(system));
    Scenario s = thin_gpt2();
    const SchemeResult dp = run(s, "dp"), result = train(s, system.scheme, system.words);
    // GELUs occur in the passes only: one per block and micro-batch, forward and backward.
    const auto count = [](const SchemeResult& of, Verb verb) {
      std::int64_t found = 0;
      for (const Span& span : of.ranks[0].spans)
        found += span.op != Span::collective && span.verb == verb && std::string(op_name(span.op)).find("gelu") == 0;
      return found;
    };
    CHECK(count(dp, Verb::backward) > 0);
    for (int verb = 0; verb < verb_count; ++verb) CHECK(count(result, Verb(verb)) == count(dp, Verb(verb)));
  }
}
