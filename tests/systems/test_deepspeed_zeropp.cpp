// deepspeed stage 3 with ZeRO++'s and MiCS's options: what goes where, what is held, and that it trains as stage 3 does.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "app/scenario_parts.h"
#include "core/error.h"
#include "systems/deepspeed_runs.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

/// Every use is a gather: nothing is kept for the next, and nothing is gathered ahead.
const Words every_use{{"stage3_prefetch_bucket_size", "0"}, {"stage3_max_reuse_distance", "0"}};
const Words tight{
    {"reduce_bucket_size", "700"},         {"stage3_prefetch_bucket_size", "900"},       {"stage3_max_live_parameters", "4000"},
    {"stage3_max_reuse_distance", "3000"}, {"stage3_param_persistence_threshold", "25"}, {"sub_group_size", "1000"}};

Words stage3(const Words& words, const Words& more = {}) { return stage(3, with(words, more)); }
Words hpz(int ranks) { return {{"zero_hpz_partition_size", std::to_string(ranks)}}; }
Words mics(int ranks) { return {{"mics_shard_size", std::to_string(ranks)}}; }

double last_step(const SchemeResult& result) { return result.ranks[0].step_end.back() - result.ranks[0].step_begin.back(); }

constexpr std::int64_t all = 774'090'240, persistent = 601'600, tokens = 64'389'120;

/// Bytes over the busiest of the four NICs in the second of two steps. All carry the same, but for the norm: of its four bytes not
/// every NIC sees both rounds.
std::int64_t over_each_nic(Scenario s, const Words& words) {
  const auto in_steps = [&](int steps) {
    s.steps = steps;
    std::vector<std::int64_t> bytes;
    for (const LinkLoad& load : run(s, words).links)
      if (load.link.find("nics_UP") != std::string::npos) bytes.push_back(std::int64_t(std::llround(load.bytes)));
    REQUIRE(bytes.size() == 4);
    const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
    CHECK(*most - *least <= 8 * steps);
    return *most;
  };
  return in_steps(2) - in_steps(1);
}
constexpr std::int64_t norm = 8;

/// 32 GPUs on four nodes with one NIC each.
Scenario four_nodes() {
  Scenario s = gpt2_large();
  s.platform = platforms_folder() / "dgx-h100-x4-1nic.xml";
  s.world = 32, s.recorded_ranks = 1;
  return s;
}

/// A GPT-2 whose sizes are multiples of `width`.
Scenario quantizable(int width) {
  Scenario s = thin_gpt2(false);
  TransformerShape& shape = s.transformer->shape;
  shape.hidden = width, shape.heads = shape.kv_heads = 4, shape.head_dim = width / 4, shape.ffn = 4 * width;
  shape.vocab = 32, shape.positions = 16;
  return s;
}

/// As few groups of at most 8000 numbers as there are of one size that is a multiple of 8.
std::int64_t groups_of(std::int64_t elements) {
  std::int64_t size = 8000;
  while (elements % size != 0) size -= 8;
  return elements / size;
}

}  // namespace

TEST_CASE("with hpZ a step's first gather of a parameter goes round all ranks, later ones round p, to the element, from messages") {
  const PlatformFile platform(IdealGpus{.gpus = 64});
  for (const auto& [n, p] : std::vector<std::pair<int, int>>{{1, 1}, {2, 2}, {3, 3}, {8, 2}, {8, 4}, {64, 8}})
    for (const int accumulation : {1, 2}) {
      if (n > counted_worlds.back() || (n == 64 && accumulation == 1)) continue;  // many messages
      INFO("world " << n << ", hpz " << p << ", accumulation " << accumulation);
      Scenario s = thin_gpt2();
      s.platform = platform.path(), s.world = n, s.steps = 3, s.fabric = Fidelity::ring, s.numerics = Numerics::off;
      s.knobs.accumulation = accumulation;
      const SchemeResult result = run(s, stage3(with(every_use, hpz(p)), {{"stage3_param_persistence_threshold", "25"}}));
      // Elements of a rank's shards; of the secondary ones N/p times as many.
      const auto shard = [n = n](std::int64_t elements) { return (elements + n - 1) / n; };
      std::int64_t model = 0, persistent_ones = 0;
      for (const std::int64_t elements : counts_of_thin()) {
        model += shard(elements);
        if (elements <= 25) persistent_ones += shard(elements);
      }
      const std::int64_t words = shard(29 * 20), positions = shard(12 * 20);
      // The tied table has two uses in each pass; the second micro-batch finds the tables as the first one's backward has left
      // them.
      const std::int64_t uses = 2 * (model + words), uses_again = uses - words - positions;
      std::int64_t first = 0, again = 0;
      for (int step = 0; step < s.steps; ++step) {
        const std::int64_t kept = step > 0 ? persistent_ones : 0;  // the last step has gathered them
        first += model - kept;
        again += uses - model - kept;
        if (accumulation == 2) again += uses_again - (step > 0 ? 2 : 1) * persistent_ones;
      }
      first += s.steps * persistent_ones;
      const std::int64_t scattered = s.steps * accumulation * model;
      for (const RankResult& rank : result.ranks)
        CHECK(rank.traffic_bytes == 4 * ((n - 1) * (first + scattered) + (p - 1) * (n / p) * again));
    }
}

TEST_CASE("hpZ does not change a bit of the loss and of theta, on simgrid and threads, for ranks, micro-batches and limits") {
  for (const auto& [world, p] : std::vector<std::pair<int, int>>{{2, 2}, {3, 3}, {8, 4}, {8, 8}})
    for (const int accumulation : {1, 2})
      for (const Words& limits : {Words{}, every_use, tight}) {
        INFO("world " << world << ", hpz " << p << ", accumulation " << accumulation << ", " << limits.size() << " limits");
        Scenario s = thin_gpt2(accumulation == 1);
        s.world = world, s.knobs.accumulation = accumulation, s.knobs.streams = 1 + world % 3;
        s.knobs.clip = accumulation == 2 ? 0.5f : 0.f;
        const SchemeResult plain = run(s, stage3(limits)), mine = run(s, stage3(limits, hpz(p)));
        CHECK(mine.ranks[0].losses == plain.ranks[0].losses);
        CHECK(mine.theta == plain.theta);
        s.backend = "threads";
        CHECK(run(s, stage3(limits, hpz(p))).theta == plain.theta);
      }
}

TEST_CASE("hpZ holds 2/p bytes per parameter more, from the first drop to the end of the step") {
  const Scenario s = gpt2_large();
  for (const Words& limits : {Words{}, every_use}) {
    const SchemeResult plain = run(s, stage3(limits)), mine = run(s, stage3(limits, hpz(4)));
    CHECK(most(plain, Band::param) == 2 * all / 8);
    CHECK(most(mine, Band::param) == 2 * all / 8 + 2 * all / 4);
    for (int band = 0; band < band_count; ++band)
      CHECK(resident_of(mine.ranks[0], Band(band)) == resident_of(plain.ranks[0], Band(band)));
  }
}

TEST_CASE("over each NIC go 4 bytes per parameter with hpZ and 6 without, if every use is a gather; if all is kept, the same 4") {
  const Scenario s = four_nodes();
  CHECK(over_each_nic(s, stage3(every_use)) == 2 * (3 * all + 2 * tokens - persistent) / 32 * 31 + norm);
  CHECK(over_each_nic(s, stage3(every_use, hpz(8))) == 2 * 2 * all / 32 * 31 + norm);
  CHECK(over_each_nic(s, stage3(hpz(8))) == 2 * 2 * all / 32 * 31 + norm);
  // Without, a part of block 0 is gathered a second time.
  CHECK(over_each_nic(s, stage3({})) < 1.01 * (2 * 2 * all / 32 * 31));
}

TEST_CASE("hpZ pays where gathers cross nodes twice, and costs time where the model is kept from forward to backward") {
  Scenario s = four_nodes();
  CHECK(last_step(run(s, stage3(every_use, hpz(8)))) < last_step(run(s, stage3(every_use))));
  CHECK(last_step(run(s, stage3(hpz(8)))) > last_step(run(s, stage3({}))));
}

TEST_CASE("a gather that does not wait for its secondary shards is found by the hazard checker") {
  Scenario s = thin_gpt2();
  s.numerics = Numerics::off, s.knobs.step_barrier = false;
  CHECK_NOTHROW(run(s, stage3(every_use, hpz(3))));
  s.knobs.omitted = Edge::release_before_gather;
  CHECK_THROWS_AS(run(s, stage3(every_use, hpz(3))), IllegalStep);
}

TEST_CASE("MiCS gathers and scatters within S ranks and all-reduces shards over N/S, to the element, from messages") {
  const PlatformFile platform(IdealGpus{.gpus = 64});
  for (const auto& [n, size] : std::vector<std::pair<int, int>>{{2, 2}, {3, 3}, {8, 2}, {8, 4}, {64, 8}})
    for (const int accumulation : {1, 2}) {
      if (n > counted_worlds.back()) continue;
      INFO("world " << n << ", shards " << size << ", accumulation " << accumulation);
      Scenario s = thin_gpt2(false);
      s.platform = platform.path(), s.world = n, s.steps = 2, s.fabric = Fidelity::ring, s.numerics = Numerics::off;
      s.knobs.accumulation = accumulation;
      const SchemeResult result = run(s, stage3(every_use, mics(size)));
      std::int64_t model = 0;
      for (const std::int64_t elements : result.unit_parameters) model += (elements + size - 1) / size;
      const std::int64_t replicas = n / size, tables = (29 * 20 + size - 1) / size + (12 * 20 + size - 1) / size;
      // All of so small a model persists: it is gathered after each step, and in passes of the first step only, twice while they
      // are recorded. The second micro-batch finds the tables as the first one's backward has left them.
      const std::int64_t gathered = 2 * model + (accumulation - 1) * (model - tables) + s.steps * model;
      for (int me = 0; me < n; ++me)
        CHECK(result.ranks[std::size_t(me)].traffic_bytes == 4 * ((size - 1) * (gathered + s.steps * accumulation * model) +
                                                                  s.steps * sent_in_all_reduce(model, int(replicas), me / size)));
    }
}

TEST_CASE("MiCS's loss stays within 1e-5 of dp's over 100 steps; with one copy it is stage 3, bit for bit") {
  Scenario s = thin_gpt2();
  s.world = 8, s.steps = 100;
  const SchemeResult dp = test::run(s, "dp");
  for (const int size : {2, 4, 8}) {
    INFO("shards " << size);
    const SchemeResult mine = run(s, stage3(tight, mics(size)));
    CHECK(worst_difference(mine.ranks[0].losses, dp.ranks[0].losses) < 1e-5);
    if (size == 8) CHECK(mine.theta == run(s, stage3(tight)).theta);
  }
}

TEST_CASE("MiCS trains alike on threads, with micro-batches, clipping, all-reduced buckets and gradients that are not bucketed") {
  Scenario s = thin_gpt2();
  s.world = 6, s.knobs.accumulation = 2, s.knobs.clip = 0.5f;
  const SchemeResult dp = test::run(s, "dp");
  for (const Words& words : {Words{}, Words{{"reduce_scatter", "false"}}, Words{{"contiguous_gradients", "false"}}}) {
    s.backend = "simgrid";
    const SchemeResult simgrid = run(s, stage3(with(tight, words), mics(3)));
    CHECK(worst_difference(simgrid.ranks[0].losses, dp.ranks[0].losses) < 1e-5);
    s.backend = "threads";
    CHECK(run(s, stage3(with(tight, words), mics(3))).theta == simgrid.theta);
  }
}

TEST_CASE("MiCS holds 16 bytes per parameter over S ranks, and gathers without flat buffers") {
  const Scenario s = gpt2_large();
  const SchemeResult mine = run(s, stage3(mics(4)));
  CHECK(resident_of(mine.ranks[0], Band::param) == 2 * all / 4);
  CHECK(resident_of(mine.ranks[0], Band::grad) == 2 * all / 4);
  CHECK(resident_of(mine.ranks[0], Band::opt) == 12 * all / 4);
  CHECK(most(mine, Band::gathered) == 2 * all);
  CHECK(most(run(s, stage3({})), Band::gathered) > 2 * all);
}

TEST_CASE("MiCS's nodes exchange 2 (R - 1) / R of the gradients' shards") {
  const Scenario s = four_nodes();
  CHECK(over_each_nic(s, stage3(mics(8))) == 2 * 2 * all / 4 * 3);
}

TEST_CASE("a gradient's all-reduce over the copies waits for nothing less than its scatter, and the update for it") {
  Scenario s = thin_gpt2();
  s.world = 6, s.numerics = Numerics::off, s.knobs.step_barrier = false;
  for (const Edge edge : {Edge::gradient_before_reduction, Edge::reduction_before_update, Edge::gather_before_use}) {
    CAPTURE(int(edge));
    s.knobs.omitted = edge;
    CHECK_THROWS_AS(run(s, stage3(tight, mics(3))), IllegalStep);
  }
}

TEST_CASE("quantized gathers send a byte per element and four per group, to the element, from messages") {
  const PlatformFile platform(IdealGpus{.gpus = 64});
  for (const auto& [n, p] : std::vector<std::pair<int, int>>{{1, 1}, {2, 1}, {3, 1}, {8, 1}, {8, 4}, {64, 8}}) {
    if (n > counted_worlds.back()) continue;
    INFO("world " << n << ", hpz " << p);
    Scenario s = quantizable(8 * n);
    s.platform = platform.path(), s.world = n, s.steps = 2, s.fabric = Fidelity::ring, s.numerics = Numerics::off;
    const SchemeResult result =
        run(s, stage3(with(every_use, hpz(p)), {{"zero_quantized_weights", "true"}, {"stage3_param_persistence_threshold", "0"}}));
    // Weight and bias of a module are one gather; nothing persists.
    const std::int64_t d = s.transformer->shape.hidden, ffn = s.transformer->shape.ffn;
    std::vector<std::int64_t> modules{s.transformer->shape.vocab * d, s.transformer->shape.positions * d, 2 * d,
                                      s.transformer->shape.vocab * d};
    for (int block = 0; block < 2; ++block)
      for (const std::int64_t module : {2 * d, 3 * d * d + 3 * d, d * d + d, 2 * d, d * ffn + ffn, ffn * d + d})
        modules.push_back(module);
    std::int64_t bytes = 0, scattered = 0;
    for (const std::int64_t module : modules)
      for (const int ranks : {n, p > 1 ? p : n}) bytes += (ranks - 1) * (module / ranks + 4 * groups_of(module / ranks));
    for (const std::int64_t elements : result.unit_parameters) scattered += 4 * (n - 1) * elements / n;
    for (const RankResult& rank : result.ranks) CHECK(rank.traffic_bytes == s.steps * (bytes + scattered));
  }
}

TEST_CASE("quantized gathers change the loss: a little at once, and by a few percent over 100 steps") {
  Scenario s = quantizable(8 * 8);
  s.world = 8, s.steps = 100;
  const Words quantized{{"zero_quantized_weights", "true"}, {"stage3_param_persistence_threshold", "0"}};
  const SchemeResult plain = run(s, stage3(every_use)), mine = run(s, stage3(every_use, quantized));
  const double first = std::abs(double(mine.ranks[0].losses[0]) / plain.ranks[0].losses[0] - 1);
  const double worst = worst_difference(mine.ranks[0].losses, plain.ranks[0].losses);
  MESSAGE("relative difference of the loss: " << first << " in the first step, " << worst << " at most");
  CHECK(first > 1e-7);
  CHECK(worst > first);
  CHECK(worst < 0.05);
  CHECK(mine.ranks[0].losses.back() < 0.9 * mine.ranks[0].losses.front());
  for (const Words& more : {hpz(4), hpz(8)}) {
    // Quantized once more from what was quantized: the scale of a group changes with its largest number.
    const SchemeResult again = run(s, stage3(with(every_use, more), quantized));
    CHECK(worst_difference(again.ranks[0].losses, plain.ranks[0].losses) < 0.05);
  }
  s.backend = "threads", s.steps = 5;
  CHECK(run(s, stage3(every_use, quantized)).ranks[0].losses ==
        std::vector<float>(mine.ranks[0].losses.begin(), mine.ranks[0].losses.begin() + 5));
}

TEST_CASE("what persists is gathered unquantized after the step: a model that is all persistent trains as without") {
  Scenario s = quantizable(8 * 2);
  s.world = 2;
  const SchemeResult plain = run(s, stage3({})), mine = run(s, stage3({{"zero_quantized_weights", "true"}}));
  CHECK(mine.ranks[0].losses[0] != plain.ranks[0].losses[0]);  // the first passes gather everything, 8 bits wide
  const std::vector<Span> gathers = collectives(mine, Verb::all_gather);
  CHECK(gathers.size() == plain.unit_parameters.size());
}

TEST_CASE("a gather in flight holds a byte per element, and the numbers it becomes are made when they are needed") {
  Scenario s = gpt2_large();
  const SchemeResult plain = run(s, stage3(every_use)), mine = run(s, stage3(every_use, {{"zero_quantized_weights", "true"}}));
  CHECK(collectives(mine, Verb::all_gather).size() == 2 * collectives(plain, Verb::all_gather).size() - 290);
  s.knobs.omitted = Edge::gather_before_use;
  CHECK_THROWS_AS(run(s, stage3(every_use, {{"zero_quantized_weights", "true"}})), IllegalStep);
}

TEST_CASE("numerics full and off give quantized gathers the same seconds and bytes, to the bit") {
  Scenario s = quantizable(8 * 8);
  s.world = 8;
  const Words words = stage3(every_use, {{"zero_quantized_weights", "true"}, {"zero_hpz_partition_size", "4"}});
  const SchemeResult full = run(s, words);
  s.numerics = Numerics::off;
  const SchemeResult off = run(s, words);
  CHECK(off.ranks[3].step_end == full.ranks[3].step_end);
  CHECK(off.ranks[3].peak.bytes == full.ranks[3].peak.bytes);
}

TEST_CASE("ZeRO++ and MiCS options that contradict each other or the world are refused") {
  const Scenario s = thin_gpt2();  // three ranks
  CHECK_THROWS_WITH_AS(run(s, stage3(hpz(2))), doctest::Contains("zero_hpz_partition_size: 3 ranks are no groups of 2"),
                       ScenarioError);
  CHECK_THROWS_WITH_AS(run(s, stage3(mics(2))), doctest::Contains("mics_shard_size: 3 ranks are no groups of 2"), ScenarioError);
  CHECK_THROWS_WITH_AS(run(s, stage3(mics(6))), doctest::Contains("mics_shard_size: 3 ranks are no groups of 6"), ScenarioError);
  for (const auto& [words, what] : std::vector<std::pair<Words, std::string>>{
           {mics(1), "a group of one rank"},
           {with(mics(3), hpz(3)), "MiCS has no secondary shards"},
           {with(mics(3), {{"offload_optimizer", "cpu"}}), "MiCS has no support for it"},
           {with(hpz(3), {{"offload_optimizer", "cpu"}, {"offload_param", "cpu"}}),
            "beside hpZ and quantized weights not modelled"},
           {with(mics(3), {{"zero_quantized_weights", "true"}}), "in its own way"},
           {with(mics(3), {{"mics_hierarchical_params_gather", "true"}}), "two hops are not modelled"},
           {with(mics(3), {{"stage3_use_all_reduce_for_fetch_params", "true"}}), "in its own way"}}) {
    INFO(what);
    CHECK_THROWS_WITH_AS(run(s, stage3(words)), doctest::Contains(what.c_str()), std::invalid_argument);
  }
  CHECK_THROWS_WITH_AS(run(s, stage3({{"zero_quantized_weights", "true"}})), doctest::Contains("no multiple of 8"), ScenarioError);
  CHECK_THROWS_AS(choice_of(*built_in_schemes().find("deepspeed"), hpz(0)), std::invalid_argument);
}
