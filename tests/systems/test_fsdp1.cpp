// fsdp1: what it gathers and reduces, in which order, and what it holds.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "app/metrics.h"
#include "app/scenario_parts.h"
#include "systems/systems.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

SchemeResult train(const Scenario& s, const Words& words = {}) { return test::train(s, "fsdp1", words); }

Words strategy(const std::string& name) { return {{"sharding_strategy", name}}; }

Scenario reduced_in_fp32() {
  Scenario s = gpt2_large();
  s.knobs.precision.reduce = Dtype::fp32;
  return s;
}

constexpr std::int64_t h = 1280, block = 12 * h * h + 13 * h, root = (50304 + 1024 + 2) * h, all = 36 * block + root;

/// "G3" is the gather of unit 3, "R3" its reduction, in the order of their ends.
std::string order_of(const SchemeResult& result) {
  std::string order;
  for (const Span& span : collectives_of(result, result.steps - 1))
    order += (span.verb == Verb::all_gather ? " G" : " R") + std::to_string(span.unit);
  return order;
}

std::int64_t rounded_up(std::int64_t count, int n) { return (count + n - 1) / n * n; }

/// Of the thin model: root and block.
constexpr std::int64_t thin_root = 20 * (29 + 12 + 2), thin_block = 20 * 60 + 60 + 20 * 20 + 20 + 2 * 20 * 44 + 44 + 20 + 4 * 20;

}  // namespace

TEST_CASE(
    "fsdp1 gathers GPT-2 Large by 39.35 MB a block and 131.4 MB for the root, which is gathered once, and reduces units once") {
  const SchemeResult result = train(gpt2_large());
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
    CHECK(reductions[i].size == 2 * (i == 36 ? root : block));
    CHECK(reductions[i].lane == Lane::reduce);
  }
  CHECK(bytes_of_all(collectives(result, Verb::all_reduce)) == 0);
}

TEST_CASE("fsdp1's collectives run one by one in the order of issue, which each prefetch mode makes another one") {
  Scenario s = thin_gpt2();
  for (const int streams : {1, 2, 3}) {
    s.knobs.streams = streams;
    CHECK(order_of(train(s)) == " G2 G0 G1 G1 G0 R1 R0 R2");
    CHECK(order_of(train(s, {{"backward_prefetch", "BACKWARD_POST"}})) == " G2 G0 G1 G1 G0 R1 R0 R2");
    CHECK(order_of(train(s, {{"backward_prefetch", "None"}})) == " G2 G0 G1 G1 R1 G0 R0 R2");
  }
  for (const char* prefetch : {"BACKWARD_PRE", "BACKWARD_POST", "None"}) {
    const SchemeResult result = train(gpt2_large(), {{"backward_prefetch", prefetch}});
    double end = 0;
    for (const Span& span : collectives_of(result, 1)) {
      CHECK(span.begin >= end);
      end = span.end;
    }
  }
}

TEST_CASE("without a prefetch fsdp1's gathers of backward wait for the reduction before, and with one they hide") {
  Scenario s = gpt2_large();
  const auto seconds = [&](const Words& words) {
    const RankResult rank = train(s, words).ranks[0];
    return rank.step_end[1] - rank.step_begin[1];
  };
  const double pre = seconds({}), post = seconds({{"backward_prefetch", "BACKWARD_POST"}});
  const double none = seconds({{"backward_prefetch", "None"}});
  MESSAGE("a step: BACKWARD_PRE " << pre << " s, BACKWARD_POST " << post << " s, None " << none << " s");
  CHECK(none > 1.01 * pre);
  CHECK(post >= pre);
}

TEST_CASE("fsdp1 holds 12 P / N between steps, no 16-bit copy and no bucket") {
  const SchemeResult result = train(reduced_in_fp32());
  CHECK(resident_of(result.ranks[0], Band::param) == 4 * all / 8);
  CHECK(resident_of(result.ranks[0], Band::opt) == 8 * all / 8);
  for (const Band band : {Band::grad, Band::gathered, Band::bucket}) CHECK(resident_of(result.ranks[0], band) == 0);
}

TEST_CASE("the end of a unit's backward holds its gradients twice, as tensors of their own and as the flat one") {
  // In bf16 the worst instant is the end of block 2's backward, beside the reduced shards of 33 blocks and the root's gradients of
  // head and last norm. Gathered are the root, which forward has kept, the block at hand, and two that the host has let through.
  const SchemeResult narrow = train(gpt2_large());
  const Peak& peak = narrow.ranks[0].model_state_peak;
  CHECK(peak.of(Band::grad) == 33 * 4 * block / 8 + 2 * 2 * block + 2 * (50304 + 2) * h);
  CHECK(peak.of(Band::gathered) == 2 * (root + 3 * block) + 2 * block / 8);
  // Reduced in fp32 it is the end of the root's, while block 0 is reduced: from its flat gradient, cast, to a shard.
  const SchemeResult wide = train(reduced_in_fp32());
  const Peak& later = wide.ranks[0].model_state_peak;
  CHECK(later.of(Band::grad) == 35 * 4 * block / 8 + (2 + 4) * block + 4 * block / 8 + 2 * 2 * root);
  CHECK(later.of(Band::gathered) == 2 * root);
}

TEST_CASE("a host that runs ahead gathers far ahead without limit_all_gathers, and with it three units beside the root") {
  Scenario s = gpt2_large();
  const SchemeResult limited = train(s), free = train(s, {{"limit_all_gathers", "false"}});
  CHECK(most(limited, Band::gathered) == 2 * (root + 3 * block) + 2 * block / 8);
  CHECK(most(free, Band::gathered) > 2 * (root + 20 * block));
  CHECK(limited.ranks[0].step_end[1] <= free.ranks[0].step_end[1] * 1.001);  // holding back costs no time here
  // What runs ahead takes new memory, since that of freed units is still in use: the allocator reserves more.
  s.memory.torch = true;
  const std::int64_t reserved = train(s).ranks[0].allocator.reserved;
  CHECK(train(s, {{"limit_all_gathers", "false"}}).ranks[0].allocator.reserved > reserved + 2 * 20 * block);
  s.memory.torch = false;
  // Whose launches take longer than the kernels is never ahead, and nothing needs to hold it back.
  static const PlatformFile slow_host{IdealGpus{.launch_seconds = 1e-3}};
  s.platform = slow_host.path();
  for (const char* limits : {"true", "false"})
    CHECK(most(train(s, {{"limit_all_gathers", limits}}), Band::gathered) == 2 * (root + 2 * block) + 2 * block / 8);
}

TEST_CASE("fsdp1 sends what its strategy says, to the byte, on every rank, for every world, accumulating or not") {
  for (const int world : counted_worlds)
    for (const int micro_batches : {1, 3})
      for (const bool no_sync : {false, true})
        for (const char* name : {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"}) {
          CAPTURE(world);
          CAPTURE(micro_batches);
          CAPTURE(no_sync);
          CAPTURE(name);
          Scenario s = thin_gpt2();
          s.world = world, s.steps = 2, s.numerics = Numerics::off, s.knobs.accumulation = micro_batches;
          s.fabric = Fidelity::ring;
          static const PlatformFile many{IdealGpus{.gpus = 64}};
          s.platform = many.path();
          const std::string strategy = name;
          const SchemeResult result = train(s, {{"sharding_strategy", strategy}, {"no_sync", no_sync ? "true" : "false"}});
          const std::int64_t synced = no_sync ? 1 : micro_batches;
          const std::int64_t units[] = {thin_block, thin_block, thin_root};
          std::int64_t most_sent = 0, least_sent = 0;
          for (int me = 0; me < world; ++me) {
            std::int64_t elements = 0;
            for (const std::int64_t unit : units) {
              const std::int64_t pass = rounded_up(unit, world) / world * (world - 1);
              if (strategy == "FULL_SHARD") elements += micro_batches * (unit == thin_root ? 1 : 2) * pass + synced * pass;
              // Under no_sync parameters that forward keeps are kept from micro-batch to micro-batch.
              if (strategy == "SHARD_GRAD_OP") elements += (no_sync ? 1 : micro_batches) * pass + synced * pass;
              if (strategy == "NO_SHARD") elements += synced * sent_in_all_reduce(unit, world, me);  // not padded
            }
            CHECK(result.ranks[std::size_t(me)].traffic_bytes == s.steps * 4 * elements * (world > 1));
            most_sent = me == 0 ? elements : std::max(most_sent, elements),
            least_sent = me == 0 ? elements : std::min(least_sent, elements);
          }
          if (world == 1) continue;
          const formats::Figures figures = measure(s, result);
          CHECK(figures.bytes_sent.max == 4 * most_sent);
          CHECK(figures.bytes_sent.min == 4 * least_sent);
        }
}

TEST_CASE("HYBRID_SHARD gathers and scatters within a replica, and all-reduces a shard of the gradient between replicas") {
  for (const auto& [world, shards] : {std::pair{4, 2}, {8, 2}, {8, 4}, {8, 8}, {64, 8}})
    for (const bool zero2 : {false, true}) {
      CAPTURE(world);
      CAPTURE(shards);
      Scenario s = thin_gpt2();
      s.world = world, s.knobs.shards = shards, s.steps = 2, s.numerics = Numerics::off, s.fabric = Fidelity::ring;
      static const PlatformFile many{IdealGpus{.gpus = 64}};
      s.platform = many.path();
      const SchemeResult result = train(s, strategy(zero2 ? "_HYBRID_SHARD_ZERO2" : "HYBRID_SHARD"));
      const int replicas = world / shards;
      for (int me = 0; me < world; ++me) {
        std::int64_t elements = 0;
        for (const std::int64_t unit : {thin_block, thin_block, thin_root}) {
          const std::int64_t shard = rounded_up(unit, shards) / shards;
          elements += (unit == thin_root || zero2 ? 2 : 3) * shard * (shards - 1);
          elements += sent_in_all_reduce(shard, replicas, me / shards);
        }
        CHECK(result.ranks[std::size_t(me)].traffic_bytes == s.steps * 4 * elements);
      }
      CHECK(resident_of(result.ranks[0], Band::param) == 4 * (2 * thin_block + rounded_up(thin_root, shards)) / shards);
    }
}

TEST_CASE("HYBRID_SHARD's nodes exchange 2 (R - 1) / R of the gradients, where FULL_SHARD's ring takes everything over every NIC") {
  Scenario s = gpt2_large();
  s.platform = platforms_folder() / "dgx-h100-x4-1nic.xml";
  s.world = 32, s.knobs.shards = 8;
  const auto over_each_nic = [&](const char* name) {
    std::vector<std::int64_t> bytes;
    for (const LinkLoad& load : train(s, strategy(name)).links)
      if (load.link.find("nics_UP") != std::string::npos) bytes.push_back(std::int64_t(std::llround(load.bytes)) / s.steps);
    REQUIRE(bytes.size() == 4);
    CHECK(std::count(bytes.begin(), bytes.end(), bytes.front()) == 4);
    return bytes.front();
  };
  CHECK(over_each_nic("FULL_SHARD") == (3 * 2 * all - 2 * root) / 32 * 31);
  CHECK(over_each_nic("SHARD_GRAD_OP") == 2 * 2 * all / 32 * 31);
  CHECK(over_each_nic("HYBRID_SHARD") == 2 * 2 * all / 4 * 3);
  CHECK(over_each_nic("_HYBRID_SHARD_ZERO2") == 2 * 2 * all / 4 * 3);
}

TEST_CASE("NO_SHARD is DDP without buckets: everything is held, nothing is gathered, and each unit's gradient is all-reduced") {
  const Scenario s = gpt2_large();
  const SchemeResult result = train(s, strategy("NO_SHARD"));
  CHECK(resident_of(result.ranks[0], Band::param) == 4 * all);
  CHECK(resident_of(result.ranks[0], Band::opt) == 8 * all);
  for (const Band band : {Band::grad, Band::gathered, Band::bucket}) CHECK(resident_of(result.ranks[0], band) == 0);
  CHECK(most(result, Band::bucket) == 0);
  CHECK(bytes_of_all(collectives(result, Verb::all_gather)) == 0);
  CHECK(collectives(result, Verb::all_reduce).size() == 37);
  CHECK(bytes_of_all(collectives(result, Verb::all_reduce)) == 2 * all);
  // In fp32 nothing is cast: parameters are used where they lie.
  Scenario fp32 = s;
  fp32.knobs.precision = {};
  CHECK(most(train(fp32, strategy("NO_SHARD")), Band::gathered) == 0);
}

TEST_CASE("SHARD_GRAD_OP keeps parameters from forward to backward: one gather, and all of them are there at the turn") {
  const SchemeResult result = train(gpt2_large(), strategy("SHARD_GRAD_OP"));
  CHECK(bytes_of_all(collectives(result, Verb::all_gather)) == 2 * all);
  CHECK(bytes_of_all(collectives(result, Verb::reduce_scatter)) == 2 * all);
  CHECK(most(result, Band::gathered) == 2 * all + 2 * block / 8);  // and the last block's cast shard
}

TEST_CASE("size_based_auto_wrap_policy makes units of modules that are large enough, and refuses to part tied parameters") {
  Scenario s = thin_gpt2(false);
  const auto sizes = [&](const Words& words) {
    std::vector<std::int64_t> sizes;
    for (const Span& span : collectives(train(s, words), Verb::reduce_scatter)) sizes.push_back(span.size / 4);
    std::sort(sizes.begin(), sizes.end());
    return sizes;
  };
  const auto by_size = [](const char* least) {
    return Words{{"auto_wrap_policy", "size_based_auto_wrap_policy"}, {"min_num_params", least}};
  };
  const std::int64_t untied_root = thin_root + 29 * 20, feed_forward = 2 * 20 * 44 + 44 + 20;
  const auto padded = [](std::vector<std::int64_t> counts) {
    for (std::int64_t& count : counts) count = rounded_up(count, 3);
    std::sort(counts.begin(), counts.end());
    return counts;
  };
  CHECK(sizes({}) == padded({thin_block, thin_block, untied_root}));
  CHECK(sizes({{"auto_wrap_policy", "None"}}) == padded({2 * thin_block + untied_root}));
  CHECK(sizes(by_size("3000")) == padded({thin_block, thin_block, untied_root}));
  CHECK(sizes(by_size("5000")) == padded({2 * thin_block + untied_root}));
  // A feed-forward of 1824 parameters leaves 1760 to its block.
  CHECK(sizes(by_size("1700")) ==
        padded({feed_forward, feed_forward, thin_block - feed_forward, thin_block - feed_forward, untied_root}));
}
