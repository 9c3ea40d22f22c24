// deepspeed stage 3: its gathers and reductions, what it holds, and that it trains as dp does.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "systems/deepspeed.h"
#include "systems/deepspeed_stage3.h"
#include "systems/systems.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

SchemeChoice stage3(const Words& words = {}) {
  const SchemeEntry entry{"stage3", "", "",
                          [](const Options& o) -> std::unique_ptr<Scheme> { return std::make_unique<DeepSpeedStage3>(o); },
                          DeepSpeed::options()};
  return choice_of(entry, words);
}

SchemeResult run(const Scenario& s, const Words& words) { return run_scheme(s, TrainingSet(s), stage3(words)); }

/// As in the experiment that the figures come from: 8 ranks, 4 x 1024 tokens, bf16, GELU written out.
Scenario measured_gpt2_large() {
  Scenario s = gpt2_large();
  s.steps = 3, s.knobs.streams = 2;
  s.transformer->plan.fused_activation = false;
  s.fabric = Fidelity::formula;
  s.recorded_ranks = 1;
  return s;
}

/// Some pieces are empty.
Scenario small_transformer(bool tied = true) {
  Scenario s = thin_gpt2(tied);
  s.steps = 3, s.knobs.streams = 2;
  return s;
}

/// Small limits, so that a small model is gathered and flushed in many pieces.
const Words tight{
    {"reduce_bucket_size", "700"},         {"stage3_prefetch_bucket_size", "900"},       {"stage3_max_live_parameters", "4000"},
    {"stage3_max_reuse_distance", "3000"}, {"stage3_param_persistence_threshold", "25"}, {"sub_group_size", "1000"}};

Words with(Words words, const Words& more) {
  for (const auto& [name, value] : more) words[name] = value;
  return words;
}

constexpr std::int64_t all = 774'090'240, persistent = 601'600;

std::int64_t held(const SchemeResult& result) {
  std::int64_t bytes = 0;
  for (const Part& part : result.ranks[0].resident) bytes += part.bytes;
  return bytes;
}

}  // namespace

TEST_CASE("stage 3 gathers GPT-2 Large 15 times in forward, never in backward, and 290 small parameters after the step") {
  const SchemeResult result = run(measured_gpt2_large(), Words{});
  const std::vector<Span> gathers = collectives(result, Verb::all_gather);
  REQUIRE(gathers.size() == 15 + 290);
  CHECK(gathers[0].size == 2 * 64'389'120);
  for (std::size_t i = 1; i < 15; ++i) CHECK((gathers[i].size >= 2 * 47'000'000 && gathers[i].size <= 2 * 54'100'000));
  const std::vector<Span> in_forward(gathers.begin(), gathers.begin() + 15), after(gathers.begin() + 15, gathers.end());
  CHECK(bytes_of_all(in_forward) == 2 * 794'460'160);
  CHECK(bytes_of_all(after) == 2 * persistent);
  double backward = 1e9, update = 0;
  for (const Span& span : result.ranks[0].spans) {
    if (span.begin < result.ranks[0].step_begin.back()) continue;
    if (span.verb == Verb::backward) backward = std::min(backward, span.begin);
    if (span.verb == Verb::adam) update = std::max(update, span.end);
  }
  CHECK(in_forward.back().begin < backward);
  CHECK(after.front().begin >= update);
}

TEST_CASE("stage 3 scatters two buckets, and ranks send 2.74 GB in a step") {
  const SchemeResult result = run(measured_gpt2_large(), Words{});
  const std::vector<Span> scatters = collectives(result, Verb::reduce_scatter);
  REQUIRE(scatters.size() == 2);
  CHECK(scatters[0].size == 2 * 498'498'560);  // 8 divides every parameter
  CHECK(scatters[1].size == 2 * 275'591'680);
  std::int64_t sent = 0;
  for (const Span& span : result.ranks[0].spans)
    if (span.op == Span::collective && !span.control && span.begin >= result.ranks[0].step_begin.back()) sent += span.bytes;
  CHECK(sent == 7 * 2 * (all + 794'460'160 + persistent) / 8);
  CHECK(double(sent) == doctest::Approx(2.745e9).epsilon(0.002));
}

TEST_CASE("stage 3 holds a bucket and a gradient beside its shards: 2.53 GiB with the masks and workspaces of the measured run") {
  const SchemeResult result = run(measured_gpt2_large(), Words{});
  const std::int64_t bucket = 2 * 500'000'000;
  CHECK(resident_of(result.ranks[0], Band::param) == 2 * all / 8);
  CHECK(resident_of(result.ranks[0], Band::opt) == 12 * all / 8);
  CHECK(resident_of(result.ranks[0], Band::grad) == 2 * all / 8);
  CHECK(resident_of(result.ranks[0], Band::bucket) == bucket);
  CHECK(resident_of(result.ranks[0], Band::gathered) == 2 * persistent);
  // The model's own, not the scheme's: 36 causal masks of 1024 x 1024 in fp32. cuBLAS: two workspaces of 8.125 MiB.
  const double outside = 36. * 1024 * 1024 * 4 + 2 * 8.125 * 0x1p20;
  CHECK((double(held(result)) + outside) / 0x1p30 == doctest::Approx(2.53).epsilon(0.002));
  const SchemeResult small = run(measured_gpt2_large(), {{"reduce_bucket_size", "5e7"}});
  CHECK((double(held(small)) + outside) / 0x1p30 == doctest::Approx(1.69).epsilon(0.003));
  CHECK(collectives(small, Verb::reduce_scatter).size() == 17);
  CHECK(bytes_of_all(collectives(small, Verb::reduce_scatter)) == 2 * all);
  CHECK(collectives(small, Verb::reduce_scatter).back().size == 2 * 64'389'120);  // wte: alone, from where it lies
}

TEST_CASE("stage 3's peak is 15.5 GiB: all parameters live as backward begins, and the last gather's buffer still there") {
  Scenario s = measured_gpt2_large();
  s.transformer->plan.loss = TransformerPlan::Loss::unfused;
  s.transformer->plan.mask_buffers = true;
  s.memory.torch = true, s.memory.cublas_workspace = memory::typical_cublas_workspace, s.memory.cublas_workspaces = 2;
  const SchemeResult result = run(s, Words{});
  CHECK(double(result.ranks[0].allocator.allocated) / 0x1p30 == doctest::Approx(15.51).epsilon(0.005));
  // The 15th gather holds block 0 once more, which backward needs last: until then its flat buffer lives beside the copies.
  const std::int64_t last = 47'185'920;
  CHECK(result.ranks[0].peak.of(Band::gathered) == 2 * (all + last));
}

TEST_CASE("without prefetch and reuse stage 3 gathers twice, the tied embedding once per use") {
  const SchemeResult result =
      run(measured_gpt2_large(), {{"stage3_prefetch_bucket_size", "0"}, {"stage3_max_reuse_distance", "0"}});
  const std::vector<Span> gathers = collectives(result, Verb::all_gather);
  CHECK(gathers.size() == 294 + 290);
  CHECK(double(bytes_of_all(gathers) - 2 * persistent) / (2 * all) == doctest::Approx(2.16).epsilon(0.005));
}

TEST_CASE("stage 3's loss is dp's within rounding on simgrid and threads, for 1, 2, 3 and 8 ranks, micro-batches and clipping") {
  for (const bool tied : {true, false})
    for (const int world : {1, 2, 3, 8})
      for (const int accumulation : {1, 2}) {
        INFO("tied " << tied << ", world " << world << ", accumulation " << accumulation);
        Scenario s = small_transformer(tied);
        s.world = world, s.knobs.accumulation = accumulation;
        s.knobs.clip = accumulation == 2 ? 0.5f : 0.f;
        s.knobs.streams = 1 + world % 3;
        const SchemeResult dp = test::run(s, "dp");
        for (const Words& words : {Words{}, tight}) {
          const SchemeResult simgrid = run(s, words);
          CHECK(worst_difference(simgrid.ranks[0].losses, dp.ranks[0].losses) < 1e-5);
          s.backend = "threads";
          const SchemeResult threads = run(s, words);
          CHECK(threads.ranks[0].losses == simgrid.ranks[0].losses);
          CHECK(threads.theta == simgrid.theta);
          s.backend = "simgrid";
        }
      }
}

TEST_CASE("stage 3's other ways to gather and to reduce give the same numbers") {
  Scenario s = small_transformer();
  s.knobs.streams = 3, s.knobs.accumulation = 2;
  const SchemeResult expected = run(s, tight);
  for (const Words& words : {Words{{"stage3_allgather_sequential", "true"}}, Words{{"overlap_comm", "false"}},
                             Words{{"contiguous_gradients", "false"}}, Words{{"stage3_use_all_reduce_for_fetch_params", "true"}},
                             Words{{"reduce_scatter", "false"}}, Words{{"check_grad_overflow", "true"}}}) {
    INFO(words.begin()->first);
    const SchemeResult result = run(s, with(tight, words));
    CHECK(worst_difference(result.ranks[0].losses, expected.ranks[0].losses) < 1e-5);
  }
  CHECK(collectives(run(s, with(tight, {{"reduce_scatter", "false"}})), Verb::all_reduce).size() > 3);
}

TEST_CASE("numerics full, twin and off give stage 3 the same seconds and bytes, to the bit") {
  Scenario s = small_transformer();
  s.world = 8, s.knobs.streams = 3, s.knobs.clip = 1;
  s.knobs.precision = {Dtype::bf16, Dtype::bf16, Dtype::bf16};
  s.transformer->twin_hidden = 8, s.transformer->twin_heads = 2, s.transformer->twin_vocab = 5, s.transformer->twin_sequence = 3;
  const SchemeResult full = run(s, tight);
  for (const Numerics numerics : {Numerics::twin, Numerics::off}) {
    s.numerics = numerics;
    const SchemeResult thin = run(s, tight);
    check_same_costs(thin, full);
    if (numerics == Numerics::twin) CHECK(thin.ranks[0].losses.size() == std::size_t(s.steps));
  }
}

TEST_CASE("stage 3 with a recomputed block trains to the same numbers, though modules begin a second time in backward") {
  Scenario s = small_transformer();
  const SchemeResult kept = run(s, tight);
  s.transformer->plan.recompute = {Recompute::Kind::full, 1, true};
  CHECK(run(s, tight).theta == kept.theta);
}

TEST_CASE("what each rank sends at stage 3 is what the rules say, to the element, read from messages") {
  const PlatformFile platform(IdealGpus{.gpus = 64});
  for (const int n : counted_worlds)
    for (const int accumulation : {1, 2})
      for (const bool tied : {true, false}) {
        if (n == 64 && (accumulation == 1 || !tied)) continue;  // many messages
        INFO("world " << n << ", accumulation " << accumulation << ", tied " << tied);
        Scenario s = small_transformer(tied);
        s.platform = platform.path(), s.world = n, s.fabric = Fidelity::ring, s.numerics = Numerics::off;
        s.knobs.accumulation = accumulation;
        const SchemeResult result = run(s, {{"stage3_param_persistence_threshold", "25"}});
        // Elements of a rank's shards: each parameter is padded by itself.
        std::int64_t model = 0, persistent_ones = 0;
        for (const std::int64_t elements : result.unit_parameters) {
          const std::int64_t shard = (elements + n - 1) / n;
          model += shard;
          if (elements <= 25) persistent_ones += shard;
        }
        const std::int64_t tokens = (29 * 20 + n - 1) / n, positions = (12 * 20 + n - 1) / n;
        // The first pass is recorded: every use is a gather. A later one gathers everything once, but for what the last step has
        // left gathered because it persists; and the second of two micro-batches finds the embeddings there.
        const std::int64_t recorded = 2 * (model + (tied ? tokens : 0)), again = model - tokens - positions;
        std::int64_t gathered = recorded + (s.steps - 1) * (model - persistent_ones) + s.steps * persistent_ones;
        if (accumulation == 2) gathered += again + (s.steps - 1) * (again - persistent_ones);
        const std::int64_t scattered = s.steps * accumulation * model;
        std::int64_t control = 0;
        for (const RankResult& rank : result.ranks) {
          CHECK(rank.traffic_bytes == 4 * (n - 1) * (gathered + scattered));
          control += rank.control_bytes;
        }
        CHECK(control == s.steps * 2 * (n - 1) * 4);  // a norm of four bytes, all-reduced
      }
}

TEST_CASE("what stage 3 leaves out is found by the hazard checker: each wait in turn") {
  Scenario s = small_transformer();
  s.knobs.streams = 3, s.numerics = Numerics::off, s.knobs.step_barrier = false;
  const auto finds = [&](const Words& words, const std::vector<Edge>& edges) {
    s.knobs.omitted = Edge::count;
    CHECK_NOTHROW(run(s, words));
    for (const Edge edge : edges) {
      CAPTURE(int(edge));
      s.knobs.omitted = edge;
      CHECK_THROWS_AS(run(s, words), IllegalStep);
    }
  };
  finds(tight,
        {Edge::gather_before_use, Edge::gradient_before_reduction, Edge::reduction_before_update, Edge::update_before_gather});
  finds(with(tight, {{"stage3_param_persistence_threshold", "0"}}), {Edge::update_before_gather});  // nothing makes the host wait
  finds({}, {Edge::parameters_before_use});  // all of the small model persists: no later gather waits for its own
}

TEST_CASE("with a fourth stream parameters are copied out beside compute, and compute that does not wait for them is found") {
  Scenario s = gpt2_large();
  const SchemeResult plain = run(s, Words{});
  s.knobs.streams = 4;
  const SchemeResult beside = run(s, Words{});
  const auto copies_on = [](const SchemeResult& result, Lane lane) {
    return std::count_if(result.ranks[0].spans.begin(), result.ranks[0].spans.end(), [&](const Span& span) {
      return span.lane == lane && span.op != Span::collective && span.verb == Verb::all_gather;
    });
  };
  CHECK(copies_on(beside, Lane::copy) == copies_on(plain, Lane::compute));
  CHECK(copies_on(beside, Lane::copy) > 400);
  CHECK(copies_on(plain, Lane::copy) == 0);
  CHECK(beside.ranks[0].traffic_bytes == plain.ranks[0].traffic_bytes);

  Scenario thin = small_transformer();
  thin.knobs.streams = 3;
  const SchemeResult three = run(thin, tight);
  thin.knobs.streams = 4;
  CHECK(run(thin, tight).theta == three.theta);
  thin.backend = "threads";
  CHECK(run(thin, tight).theta == three.theta);
  thin.backend = "simgrid", thin.numerics = Numerics::off, thin.knobs.step_barrier = false;
  for (const Edge edge : {Edge::gather_before_use, Edge::parameters_before_use}) {
    thin.knobs.omitted = edge;
    CHECK_THROWS_AS(run(thin, with(tight, {{"stage3_param_persistence_threshold", "0"}})), IllegalStep);
  }
}

TEST_CASE("on a slow network the host waits for all but the last two reductions, so that few gradients wait beside their bucket") {
  static const PlatformFile slow{IdealGpus{.bandwidth = 2e9}};
  Scenario s = gpt2_large();
  s.platform = slow.path();
  const std::int64_t bucket = 2 * 50'000'000, table = 2 * 50304 * 1280;
  const SchemeResult result = run(s, {{"reduce_bucket_size", "5e7"}});
  const std::int64_t waiting = most(result, Band::grad) - resident_of(result.ranks[0], Band::grad);
  MESSAGE("gradients that wait: " << double(waiting) / double(bucket) << " buckets");
  CHECK(waiting > 2 * bucket);
  CHECK(waiting < 4 * bucket + 2 * table);  // two on their way, the one that waits, the one being made; and the tied table's halves
}

TEST_CASE("over 100 steps stage 3 stays with dp, and with two ranks, where there is one order of summation, bit for bit") {
  Scenario s = small_transformer();
  s.steps = 100;
  for (const int world : {2, 8}) {
    s.world = world;
    const SchemeResult dp = test::run(s, "dp"), mine = run(s, tight);
    CHECK(worst_difference(mine.ranks[0].losses, dp.ranks[0].losses) < 1e-5);
    CHECK((mine.theta == dp.theta) == (world == 2));
  }
}

TEST_CASE("stage 3 trains a perceptron and a Llama, and takes limits of 0 as DeepSpeed would") {
  Scenario llama = small_transformer(false);
  TransformerShape& shape = llama.transformer->shape;
  shape.family = Family::llama, shape.biases = false, shape.kv_heads = 2, shape.head_dim = 6, shape.hidden = 24;
  const Words zeros{{"reduce_bucket_size", "0"},
                    {"sub_group_size", "0"},
                    {"stage3_prefetch_bucket_size", "0"},
                    {"stage3_max_live_parameters", "0"},
                    {"stage3_max_reuse_distance", "0"},
                    {"stage3_param_persistence_threshold", "0"},
                    {"stage3_model_persistence_threshold", "0"}};
  for (const Scenario& s : {small_scenario(), llama}) {
    const SchemeResult dp = test::run(s, "dp");
    for (const Words& words : {Words{}, tight, zeros})
      CHECK(worst_difference(run(s, words).ranks[0].losses, dp.ranks[0].losses) < 1e-5);
  }
}

TEST_CASE("in bf16 stage 3 differs from dp by the rounding of the reduction alone") {
  Scenario s = small_transformer();
  s.world = 8, s.steps = 20;
  s.knobs.precision = {Dtype::bf16, Dtype::bf16, Dtype::bf16};
  const SchemeResult dp = test::run(s, "dp"), mine = run(s, tight);
  CHECK(worst_difference(mine.ranks[0].losses, dp.ranks[0].losses) < 0.01);
  CHECK(mine.theta != dp.theta);
}

TEST_CASE("stage 3 refuses what it does not model") {
  for (const auto& [name, value] : Words{{"stage3_module_granularity_threshold", "100"}, {"gradient_predivide_factor", "2"}}) {
    INFO(name);
    CHECK_THROWS_WITH_AS(stage3({{name, value}}).make(), doctest::Contains(name.c_str()), std::invalid_argument);
  }
}
