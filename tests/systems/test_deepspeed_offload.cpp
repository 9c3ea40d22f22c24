// deepspeed with offloading: what the host holds and does, what crosses the link, and that nothing of it changes a number.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "core/error.h"
#include "cost/facts.h"
#include "systems/deepspeed.h"
#include "systems/deepspeed_runs.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

const Words optimizer{{"offload_optimizer", "cpu"}};
const Words both{{"offload_optimizer", "cpu"}, {"offload_param", "cpu"}};
/// Small limits, so that a small model goes through many buckets and gathers.
const Words tight{{"overlap_comm", "true"},
                  {"reduce_bucket_size", "700"},
                  {"stage3_prefetch_bucket_size", "900"},
                  {"stage3_max_live_parameters", "4000"},
                  {"stage3_max_reuse_distance", "3000"},
                  {"stage3_param_persistence_threshold", "25"},
                  {"sub_group_size", "1000"}};

constexpr double host_memory = 50e9, host_link = 20e9;

void set_price(Scenario& s, const char* fact, double value) {
  s.prices.values.push_back({cost::facts_named(fact)[0], value, Origin::scenario});
}

/// Nothing in it divides by 3 or by 8; bf16, with a host.
Scenario thin() {
  Scenario s = thin_gpt2();
  s.steps = 3;
  s.knobs.precision = {Dtype::bf16, Dtype::bf16, Dtype::bf16};
  set_price(s, "host_memory_bandwidth", host_memory);
  set_price(s, "host_link_bandwidth", host_link);
  return s;
}

std::int64_t held_on_host(const RankResult& rank, Band band) {
  std::int64_t bytes = 0;
  for (const Part& part : rank.host_resident)
    if (part.band == band) bytes += part.bytes;
  return bytes;
}

/// thin_gpt2's parameters as modules come: the last norm is behind the blocks.
std::vector<std::int64_t> in_module_order() {
  std::vector<std::int64_t> counts = counts_of_thin();
  std::rotate(counts.begin() + 2, counts.begin() + 4, counts.end());
  return counts;
}

/// A rank's partition at stages 1 and 2.
struct Partition {
  std::int64_t size = 0, own = 0;        // elements, with the padding and without
  std::int64_t pieces = 0, touched = 0;  // parameters in it, and all of their elements
  Partition(int n, int rank) {
    const std::vector<std::int64_t> counts = in_module_order();
    const std::int64_t all = std::accumulate(counts.begin(), counts.end(), std::int64_t(0));
    size = (all + 2 * n - 1) / (2 * n) * 2;
    std::int64_t begin = 0;
    for (const std::int64_t count : counts) {
      const std::int64_t piece = std::min(begin + count, (rank + 1) * size) - std::max(begin, rank * size);
      begin += count;
      if (piece <= 0) continue;
      own += piece, ++pieces, touched += count;
    }
  }
};

constexpr std::int64_t largest = 60 * 20;

std::string refusal(const Words& words) {
  try {
    Options options(DeepSpeed::options());
    for (const auto& [name, value] : words) options.set(name, value);
    DeepSpeed{options};
    return "accepted";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("offloading leaves every loss and theta what they were, to the bit, at stages 1 to 3 and on both backends") {
  for (const int world : {1, 2, 3, 8})
    for (const int accumulation : {1, 2, 3}) {
      if (world == 8 && accumulation == 2) continue;
      Scenario s = thin();
      s.world = world, s.knobs.accumulation = accumulation, s.knobs.streams = 1 + world % 3;
      s.knobs.clip = accumulation == 2 ? 0.5f : 0.f;
      for (const int number : {1, 2, 3})
        for (const Words& limits : {Words{}, tight}) {
          const SchemeResult expected = run(s, stage(number, limits));
          for (const Words& offload : {optimizer, both}) {
            if (number < 3 && offload.size() > 1) continue;
            INFO("world " << world << ", accumulation " << accumulation << ", stage " << number << ", tight " << limits.size()
                          << ", parameters, too: " << offload.size() - 1);
            const SchemeResult mine = run(s, stage(number, with(limits, offload)));
            CHECK(mine.ranks[0].losses == expected.ranks[0].losses);
            CHECK(mine.theta == expected.theta);
            if (accumulation == 3 && limits.empty()) continue;
            Scenario threads = s;
            threads.backend = "threads";
            const SchemeResult theirs = run(threads, stage(number, with(limits, offload)));
            CHECK(theirs.ranks[0].losses == mine.ranks[0].losses);
            CHECK(theirs.theta == mine.theta);
            for (int r = 0; r < world; ++r) {
              CHECK(theirs.ranks[r].crossed.to_host == mine.ranks[r].crossed.to_host);
              CHECK(theirs.ranks[r].crossed.to_device == mine.ranks[r].crossed.to_device);
              for (const Band band : {Band::param, Band::grad, Band::opt, Band::bucket})
                CHECK(held_on_host(theirs.ranks[r], band) == held_on_host(mine.ranks[r], band));
            }
          }
        }
    }
}

TEST_CASE("at stages 1 and 2 the GPU loses 12 bytes per parameter of its partition and gains a scratch buffer; the host has 18") {
  for (const int n : {1, 2, 3, 8})
    for (const int number : {1, 2}) {
      CAPTURE(n);
      CAPTURE(number);
      Scenario s = thin();
      s.world = n, s.numerics = Numerics::off;
      const SchemeResult plain = run(s, stage(number)), mine = run(s, stage(number, optimizer));
      for (int r = 0; r < n; ++r) {
        const Partition p(n, r);
        const RankResult &before = plain.ranks[r], &after = mine.ranks[r];
        CHECK(resident_of(before, Band::opt) == 12 * p.size);
        CHECK(resident_of(after, Band::opt) == 0);
        CHECK(resident_of(after, Band::param) == resident_of(before, Band::param));
        CHECK(resident_of(after, Band::grad) == 0);
        CHECK(resident_of(after, Band::bucket) == 2 * largest);
        CHECK(held_on_host(after, Band::opt) == 12 * p.size);
        CHECK(held_on_host(after, Band::grad) == 4 * p.size);
        CHECK(held_on_host(after, Band::param) == 2 * p.size);
        CHECK(held_on_host(after, Band::bucket) == 2 * largest);
        CHECK(before.host_resident.empty());
        CHECK(after.host_peak.bytes >= 18 * p.size + 2 * largest);
        // What is there for the moment: the scalars of the norm and the scan.
        CHECK(after.host_peak.bytes <= 18 * p.size + 2 * largest + 16);
      }
    }
}

TEST_CASE("at stage 3 masters, moments and gradients move to the host, and with offload_param the shards, too") {
  for (const int n : {1, 3, 8}) {
    CAPTURE(n);
    Scenario s = thin();
    s.world = n, s.numerics = Numerics::off;
    std::int64_t shards = 0;
    for (const std::int64_t count : counts_of_thin()) shards += (count + n - 1) / n;
    const RankResult plain = run(s, stage(3)).ranks[0], mine = run(s, stage(3, optimizer)).ranks[0],
                     all = run(s, stage(3, both)).ranks[0];
    CHECK(resident_of(plain, Band::param) == 2 * shards);
    for (const RankResult& rank : {mine, all}) {
      CHECK(resident_of(rank, Band::opt) == 0);
      CHECK(resident_of(rank, Band::grad) == 0);
      CHECK(resident_of(rank, Band::bucket) == resident_of(plain, Band::bucket));
      CHECK(held_on_host(rank, Band::opt) == 12 * shards);
      CHECK(held_on_host(rank, Band::grad) == (2 + 4) * shards);
    }
    CHECK(resident_of(mine, Band::param) == 2 * shards);
    CHECK(held_on_host(mine, Band::param) == 0);
    CHECK(resident_of(all, Band::param) == 0);
    CHECK(held_on_host(all, Band::param) == 2 * shards);
  }
}

TEST_CASE("stages 1 and 2 send what they own down in fp32 and its parameters up, and sums to and fro, element by element") {
  const PlatformFile platform(IdealGpus{.gpus = 64});
  for (const int n : counted_worlds)
    for (const int a : {1, 3})
      for (const int number : {1, 2}) {
        INFO("world " << n << ", accumulation " << a << ", stage " << number);
        Scenario s = thin();
        s.platform = platform.path(), s.world = n, s.knobs.accumulation = a, s.numerics = Numerics::off;
        const SchemeResult result = run(s, stage(number, with(tight, optimizer)));
        for (int r = 0; r < n; ++r) {
          const Partition p(n, r);
          const std::int64_t up_and_down = 2 * p.touched;    // bf16
          std::int64_t down = 4 * p.own + 8 * p.pieces + 4;  // and the scan's verdict and the norm of each; the norm of all
          std::int64_t up = 2 * p.size + 4;                  // and the norm that is summed over the ranks
          if (a > 1 && number == 2) down += (a - 1) * up_and_down, up += (a - 1) * up_and_down;
          if (a > 1 && number == 1) up += up_and_down;  // zeros
          CHECK(result.ranks[r].crossed.to_host == s.steps * down);
          CHECK(result.ranks[r].crossed.to_device == s.steps * up);
        }
      }
}

TEST_CASE("stage 3 sends each piece down, up and down again in fp32; with offload_param every gather sends up what it sends on") {
  const PlatformFile platform(IdealGpus{.gpus = 64});
  for (const int n : counted_worlds)
    for (const int a : {1, 3}) {
      INFO("world " << n << ", accumulation " << a);
      Scenario s = thin();
      s.platform = platform.path(), s.world = n, s.knobs.accumulation = a, s.numerics = Numerics::off;
      const SchemeResult mine = run(s, stage(3, with(tight, optimizer))), all = run(s, stage(3, with(tight, both)));
      for (int r = 0; r < n; ++r) {
        std::int64_t shard = 0, own = 0, group = 1000, groups = 0;  // a sub-group is closed by the shard that fills it
        for (const std::int64_t count : in_module_order()) {
          const std::int64_t size = (count + n - 1) / n;
          shard += size, own += std::clamp<std::int64_t>(count - r * size, 0, size);
          if (group >= 1000) group = 0, ++groups;
          group += size;
        }
        const std::int64_t norm = groups * (4 + 4);  // down, and when it has been summed over the ranks once more
        CHECK(mine.ranks[r].crossed.to_host == s.steps * (a * 2 * own + 4 * own + norm));
        CHECK(mine.ranks[r].crossed.to_device == s.steps * (a * 2 * own + 2 * shard + 4 * groups));
        CHECK(all.ranks[r].crossed.to_host == mine.ranks[r].crossed.to_host);
        if (n == 1) continue;
        // A ring's all-gather: each rank sends N - 1 pieces of the size of its own.
        std::int64_t gathered = 0;
        for (const Span& span : all.ranks[0].spans)
          if (span.op == Span::collective && span.verb == Verb::all_gather) gathered += span.size / n;
        CHECK(all.ranks[r].crossed.to_device == mine.ranks[r].crossed.to_device - s.steps * 2 * shard + gathered);
      }
    }
}

TEST_CASE("a step on one rank takes what the CPU's memory and the link take, where the GPU takes nothing") {
  const PlatformFile platform(IdealGpus{.gpus = 1, .latency = 0, .flops = 1e18, .memory_bandwidth = 1e18});
  Scenario s = thin();
  s.platform = platform.path(), s.world = 1, s.numerics = Numerics::off;
  const Partition p(1, 0);
  const SchemeResult result = run(s, stage(2, optimizer));
  // grad *= 1: 8 bytes; Adam: 28; the copy in bf16: 6. And the sum of the norms: two reads and a write of 4.
  const double cpu = double(42 * p.size + 12 * p.pieces) / host_memory;
  const double link = double(4 * p.own + 8 * p.pieces + 4 + 2 * p.size + 4) / host_link;
  for (int step = 0; step < s.steps; ++step)
    CHECK(result.ranks[0].step_end[step] - result.ranks[0].step_begin[step] == doctest::Approx(cpu + link).epsilon(1e-4));
  // Stage 3: each gradient down and up in bf16 and down in fp32, then the parameters up; the norm down, up and down.
  const SchemeResult third = run(s, stage(3, optimizer));
  const double seconds = double(42 * p.own) / host_memory + double((2 + 2 + 4 + 2) * p.own + 12) / host_link;
  CHECK(third.ranks[0].step_end.back() - third.ranks[0].step_begin.back() == doctest::Approx(seconds).epsilon(1e-4));
}

TEST_CASE("numerics full, twin and off give offloading the same seconds and bytes, to the bit") {
  Scenario s = thin();
  s.world = 8, s.knobs.streams = 3, s.knobs.clip = 1, s.knobs.accumulation = 2;
  s.transformer->twin_hidden = 8, s.transformer->twin_heads = 2, s.transformer->twin_vocab = 5, s.transformer->twin_sequence = 3;
  for (const Words& words : {stage(1, with(tight, optimizer)), stage(2, with(tight, optimizer)), stage(3, with(tight, both))}) {
    s.numerics = Numerics::full;
    const SchemeResult full = run(s, words);
    for (const Numerics numerics : {Numerics::twin, Numerics::off}) {
      s.numerics = numerics;
      const SchemeResult thin = run(s, words);
      for (std::size_t r = 0; r < full.ranks.size(); ++r) {
        CHECK(thin.ranks[r].step_end == full.ranks[r].step_end);
        CHECK(thin.ranks[r].crossed.bytes() == full.ranks[r].crossed.bytes());
        CHECK(thin.ranks[r].host_peak.bytes == full.ranks[r].host_peak.bytes);
        CHECK(thin.ranks[r].peak.bytes == full.ranks[r].peak.bytes);
      }
    }
  }
}

TEST_CASE("what offloading leaves out is found by the hazard checker: each wait in turn") {
  Scenario s = thin();
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
  finds(stage(2, with(tight, optimizer)), {Edge::gradient_before_reduction, Edge::reduction_before_backward,
                                           Edge::update_before_gather, Edge::parameters_before_use});
  finds(stage(3, with(tight, both)), {Edge::gather_before_use, Edge::gradient_before_reduction, Edge::update_before_gather});
  s.knobs.omitted = Edge::reduction_before_update;
  CHECK_THROWS_WITH_AS(run(s, stage(2, with(tight, optimizer))), doctest::Contains("the compute stream has to wait"), IllegalStep);
}

TEST_CASE("a host whose speed is not known is refused by the fact's name") {
  Scenario s = thin();
  s.numerics = Numerics::off;
  s.prices.values.pop_back();
  CHECK_THROWS_WITH_AS(run(s, stage(2, optimizer)), doctest::Contains("prices.host_link_bandwidth"), ScenarioError);
  s.prices.values.clear();
  set_price(s, "host_link_bandwidth", host_link);
  CHECK_THROWS_WITH_AS(run(s, stage(2, optimizer)), doctest::Contains("prices.host_memory_bandwidth"), ScenarioError);
  CHECK_NOTHROW(run(s, stage(2)));
}

TEST_CASE("what DeepSpeed refuses of offloading, or what is not modelled, is refused by the option's name") {
  CHECK(refusal(stage(1, optimizer)) == "accepted");
  CHECK(refusal(stage(3, both)) == "accepted");
  const auto refuses = [](const Words& words, const char* text) {
    INFO(text);
    CHECK(refusal(words).find(text) != std::string::npos);
  };
  refuses(stage(0, optimizer), "offload_optimizer: needs stage 1, 2 or 3");
  refuses(stage(2, both), "offload_param: needs stage 3");
  refuses(stage(3, {{"offload_param", "cpu"}}), "offload_param: parameters are offloaded beside the optimizer only");
  refuses(stage(3, {{"offload_optimizer", "nvme"}}), "offload_optimizer: offloading to NVMe is not modelled");
  refuses(stage(3, with(optimizer, {{"offload_optimizer_ratio", "0.5"}})), "offload_optimizer_ratio: ");
  refuses(stage(3, with(optimizer, {{"offload_optimizer_super_offload", "true"}})), "offload_optimizer_super_offload: ");
  refuses(stage(3, with(optimizer, {{"offload_optimizer_pin_memory", "false"}})), "offload_optimizer_pin_memory: ");
  refuses(stage(2, with(optimizer, {{"contiguous_gradients", "false"}})), "contiguous_gradients: ");
  Scenario s = thin();
  s.knobs.adam.passes = AdamPasses::foreach;
  CHECK_THROWS_WITH_AS(run(s, stage(3, optimizer)), doctest::Contains("optimizer.implementation: fused"), ScenarioError);
  s.knobs.adam.passes = AdamPasses::fused, s.knobs.loss_scale.on = true;
  CHECK_THROWS_WITH_AS(run(s, stage(2, optimizer)), doctest::Contains("precision.loss_scale"), ScenarioError);
}
