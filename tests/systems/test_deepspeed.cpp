// deepspeed, stages 0 to 2: what they reduce and when, and what they hold.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "systems/deepspeed_runs.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

/// As in the measured experiment: 8 ranks, 4 x 1024 tokens, bf16, GELU and loss written out, foreach AdamW, PyTorch's allocator.
Scenario measured_gpt2_large() {
  Scenario s = gpt2_large();
  s.transformer->plan.fused_activation = false;
  s.transformer->plan.loss = TransformerPlan::Loss::unfused;
  s.transformer->plan.mask_buffers = s.transformer->plan.keeps_logits = true;
  s.knobs.adam.passes = AdamPasses::foreach;
  s.memory.torch = true;
  s.memory.cublas_workspace = memory::typical_cublas_workspace, s.memory.cublas_workspaces = memory::typical_cublas_workspaces;
  s.recorded_ranks = 1;
  return s;
}

constexpr std::int64_t all = 774'090'240;
constexpr double GiB = 0x1p30;
constexpr std::int64_t masks = 36ll * 1024 * 1024 * 4;  // the measured model's causal masks, fp32

/// The first and the last instant at which a verb's ops ran in the last step.
std::pair<double, double> period(const SchemeResult& result, Verb verb) {
  std::pair<double, double> period{1e9, 0};
  for (const Span& span : result.ranks[0].spans) {
    if (span.verb != verb || span.op == Span::collective || span.begin < result.ranks[0].step_begin.back()) continue;
    period = {std::min(period.first, span.begin), std::max(period.second, span.end)};
  }
  return period;
}

std::int64_t sent(const SchemeResult& result, int rank = 0) { return result.ranks[rank].traffic_bytes / result.steps; }

/// memory_allocated between steps: what a run of no steps comes to. The states of Adam are there from the start.
double allocated_between_steps(Scenario s, const Words& words) {
  s.steps = 0;
  return double(run(s, words).ranks[0].allocator.allocated);
}

std::int64_t held(const SchemeResult& result) {
  std::int64_t bytes = 0;
  for (const Part& part : result.ranks[0].resident) bytes += part.bytes;
  return bytes;
}

/// The small transformer's parameters in the order in which their gradients come: from the last layer to the first, biases first.
std::vector<std::int64_t> arrivals(const Scenario& s) {
  const TransformerShape& shape = s.transformer->shape;
  const std::int64_t h = shape.hidden, f = shape.ffn;
  std::vector<std::int64_t> sizes{h, h};
  for (int block = 0; block < shape.layers; ++block)
    for (const std::int64_t size : {h, f * h, f, h * f, h, h, h, h * h, 3 * h, 3 * h * h, h, h}) sizes.push_back(size);
  sizes.push_back(shape.positions * h), sizes.push_back(shape.vocab * h);
  return sizes;
}

/// Elements of the all-reduces that buckets of `limit` make of gradients that come so. What is larger goes alone.
std::vector<std::int64_t> buckets(const std::vector<std::int64_t>& sizes, std::int64_t limit) {
  std::vector<std::int64_t> filled;
  for (const std::int64_t size : sizes) {
    if (filled.empty() || filled.back() + size > limit) filled.push_back(0);
    filled.back() += size;
  }
  return filled;
}

/// What member `me` of n sends for an all-reduce, or half of it for an all-gather: every chunk but one, twice.
std::int64_t ring_elements(std::int64_t count, std::int64_t n, std::int64_t me, bool is_gather) {
  const auto chunk = [&](std::int64_t c) { return (c % n + 1) * count / n - c % n * count / n; };
  const std::int64_t once = count - chunk(me + 1);
  return is_gather ? once : once + count - chunk(me);
}

}  // namespace

TEST_CASE("stage 0 all-reduces GPT-2 Large twice, after backward, and each rank sends 2.709 GB") {
  const SchemeResult result = run(measured_gpt2_large(), overlap);  // which it does not look at
  const std::vector<Span> reductions = collectives(result, Verb::all_reduce);
  REQUIRE(reductions.size() == 2);
  // wte, wpe and 22 blocks are 498'603'520 elements; what takes the sum beyond 5e8 is the weight behind the next block's first
  // norm.
  CHECK(reductions[0].size > 2 * 500'000'000);
  CHECK(reductions[0].size == 2 * (498'603'520 + 2 * 1280 + 3 * 1280 * 1280));
  CHECK(reductions[0].size + reductions[1].size == 2 * all);
  CHECK(reductions[0].begin >= period(result, Verb::backward).second);
  CHECK(collectives(result, Verb::clip, true).empty());
  CHECK(double(sent(result)) == doctest::Approx(2.709e9).epsilon(2e-4));
  CHECK(sent(result) == 7 * 2 * 2 * all / 8);
}

TEST_CASE("stage 0 holds 10.46 GiB, 0.21 of it by the allocator's rounding, and has a peak of 21.9") {
  const SchemeResult result = run(measured_gpt2_large(), stage(0));
  CHECK(held(result) == 14 * all + masks);
  const double allocated = allocated_between_steps(measured_gpt2_large(), stage(0));
  CHECK((allocated - 14. * all - double(masks) - 2 * memory::typical_cublas_workspace) / GiB ==
        doctest::Approx(0.212).epsilon(0.02));
  CHECK(allocated / GiB == doctest::Approx(10.46).epsilon(0.001));
  CHECK(double(result.ranks[0].allocator.allocated) / GiB == doctest::Approx(21.88).epsilon(0.001));
}

TEST_CASE("stages 1 and 2 with overlap_comm all-reduce two buckets, then a scalar, then gather: 3 units, 4.064 GB") {
  for (const int number : {1, 2}) {
    CAPTURE(number);
    const SchemeResult result = run(measured_gpt2_large(), stage(number, overlap));
    const std::vector<Span> reductions = collectives(result, Verb::all_reduce), gathers = collectives(result, Verb::all_gather),
                            control = collectives(result, Verb::clip, true);
    REQUIRE(reductions.size() == 2);
    CHECK(reductions[0].size == 2 * 498'498'560);
    CHECK(reductions[1].size == 2 * 275'591'680);
    REQUIRE(control.size() == 1);
    CHECK(control[0].size == 4);
    REQUIRE(gathers.size() == 1);
    CHECK(gathers[0].size == 2 * ((all + 15) / 16 * 16));
    // The first one begins at about 70 % of backward; nothing is left to hide the second.
    const auto [begin, end] = period(result, Verb::backward);
    CHECK((reductions[0].begin - begin) / (end - begin) == doctest::Approx(0.7).epsilon(0.1));
    CHECK(reductions[1].begin >= end);
    CHECK(gathers[0].begin >= period(result, Verb::adam).second - 1e-3);
    CHECK(double(sent(result)) == doctest::Approx(4.064e9).epsilon(2e-4));
  }
}

TEST_CASE("stages 1 and 2 with overlap_comm hold 2.68 GiB, and two buckets make the same peak of 15.0 of both") {
  std::vector<std::int64_t> peaks;
  for (const int number : {1, 2}) {
    CAPTURE(number);
    const SchemeResult result = run(measured_gpt2_large(), stage(number, overlap));
    CHECK(held(result) == 2 * all + 12 * all / 8 + masks);
    CHECK(allocated_between_steps(measured_gpt2_large(), stage(number, overlap)) / GiB == doctest::Approx(2.68).epsilon(0.002));
    const RankResult& rank = result.ranks[0];
    CHECK(rank.peak.of(Band::bucket) == 2 * 2 * 500'000'000);
    CHECK(double(rank.allocator.allocated) / GiB == doctest::Approx(15.01).epsilon(0.005));
    peaks.push_back(rank.allocator.allocated);
  }
  CHECK(peaks[0] == peaks[1]);
}

TEST_CASE("smaller buckets leave the peak to the loss: 14.09 GiB") {
  const SchemeResult result = run(measured_gpt2_large(), stage(2, with(overlap, {{"reduce_bucket_size", "5e7"}})));
  CHECK(double(result.ranks[0].allocator.allocated) / GiB == doctest::Approx(14.09).epsilon(0.002));
}

TEST_CASE("without overlap_comm stage 1 keeps all gradients until backward is over; stage 2 does not") {
  const auto grads = [](int number) {
    std::int64_t most = 0, now = 0;
    for (const LedgerEntry& entry : run(measured_gpt2_large(), stage(number)).ranks[0].entries)
      if (entry.band == Band::grad) most = std::max(most, now += entry.bytes);
    return most;
  };
  CHECK(grads(1) == 2 * all);
  CHECK(grads(2) < 1.01 * all);  // and that in the step: the own partition's twice in bf16 and once in fp32
  const SchemeResult one = run(measured_gpt2_large(), stage(1)), with_streams = run(measured_gpt2_large(), stage(1, overlap));
  CHECK(one.ranks[0].peak.of(Band::bucket) < with_streams.ranks[0].peak.of(Band::bucket));
  CHECK(sent(one) == sent(with_streams));
}

TEST_CASE("when a bucket is full, compute stands still until the one before is reduced") {
  // A slow network, and buckets of a few blocks.
  Scenario s = measured_gpt2_large();
  const PlatformFile slow(IdealGpus{.bandwidth = 2e9});
  s.platform = slow.path();
  const SchemeResult result = run(s, stage(2, with(overlap, {{"reduce_bucket_size", "1e8"}})));
  const std::vector<Span> reductions = collectives(result, Verb::all_reduce);
  REQUIRE(reductions.size() == 8);
  for (std::size_t k = 1; k + 1 < reductions.size(); ++k) {
    std::size_t beside = 0;  // backward's ops while bucket k travels, and while a later one would be full
    double last = 0;
    for (const Span& span : result.ranks[0].spans)
      if (span.lane == Lane::compute && span.begin >= reductions[k].begin && span.end <= reductions[k].end)
        ++beside, last = std::max(last, span.end);
    CHECK(beside > 0);
    CHECK(last < reductions[k].end - 0.01);  // then it stands still
  }
}

TEST_CASE("ranks send what DeepSpeed's rules say, to the byte, on 1 to 64 ranks, with micro-batches and any bucket") {
  const PlatformFile platform(IdealGpus{.gpus = 64});
  for (const int world : counted_worlds)
    for (const int accumulation : {1, 2})
      for (const std::int64_t limit : {std::int64_t(500), std::int64_t(1300), std::int64_t(500'000'000)})
        for (const int number : {0, 1, 2}) {
          INFO("world " << world << ", accumulation " << accumulation << ", bucket " << limit << ", stage " << number);
          Scenario s = thin_gpt2();
          s.platform = platform.path(), s.world = world, s.knobs.accumulation = accumulation, s.numerics = Numerics::off;
          s.fabric = Fidelity::ring, s.steps = 1, s.recorded_ranks = 1;
          const Words bucket{{"reduce_bucket_size", std::to_string(limit)}, {"reduce_scatter", "false"}};
          const SchemeResult result = run(s, stage(number, with(overlap, bucket)));
          const std::vector<std::int64_t> sizes = arrivals(s);
          const std::int64_t parameters = std::accumulate(sizes.begin(), sizes.end(), std::int64_t(0));
          REQUIRE(result.parameters == parameters);
          const std::vector<std::int64_t> reduced = number == 0 ? std::vector<std::int64_t>{parameters} : buckets(sizes, limit);
          for (int me = 0; me < world; ++me) {
            std::int64_t elements = 0;
            for (const std::int64_t count : reduced) elements += ring_elements(count, world, me, false);
            if (number == 2) elements *= accumulation;
            const std::int64_t padded = (parameters + 2 * world - 1) / (2 * world) * (2 * world);
            if (number > 0) elements += ring_elements(padded, world, me, true);
            CHECK(sent(result, me) == 4 * elements);
          }
        }
}

TEST_CASE("routing slices to their owners sends as much; a parameter larger than a bucket is cut where its owner changes") {
  Scenario s = thin_gpt2();
  s.world = 8, s.numerics = Numerics::off;
  const auto reduced = [&](const char* limit) {
    std::vector<std::int64_t> counts;
    for (const Span& span : collectives(run(s, stage(2, {{"reduce_bucket_size", limit}})), Verb::all_reduce))
      counts.push_back(span.size / 4);
    return counts;
  };
  const std::vector<std::int64_t> sizes = arrivals(s), pieces = reduced("500");
  CHECK(reduced("1300") == buckets(sizes, 1300));
  CHECK(pieces.size() > buckets(sizes, 500).size());
  CHECK(std::accumulate(pieces.begin(), pieces.end(), 0) == std::accumulate(sizes.begin(), sizes.end(), 0));
}

TEST_CASE("without multi-rank all-reduces an element goes once around to its owner: each rank sends all that is not its own") {
  const PlatformFile platform(IdealGpus{.gpus = 64});
  for (const int world : counted_worlds)
    for (const int accumulation : {1, 2})
      for (const char* limit : {"500", "500000000"})
        for (const int number : {1, 2}) {
          INFO("world " << world << ", accumulation " << accumulation << ", bucket " << limit << ", stage " << number);
          Scenario s = thin_gpt2();
          s.platform = platform.path(), s.world = world, s.knobs.accumulation = accumulation, s.numerics = Numerics::off;
          s.fabric = Fidelity::ring, s.steps = 1, s.recorded_ranks = 1;
          const Words words{{"reduce_bucket_size", limit}, {"use_multi_rank_bucket_allreduce", "false"}};
          const SchemeResult result = run(s, stage(number, with(overlap, words)));
          const std::int64_t partition = (result.parameters + 2 * world - 1) / (2 * world) * 2;
          for (int me = 0; me < world; ++me) {
            const std::int64_t own = std::clamp(result.parameters - me * partition, std::int64_t(0), partition);
            const std::int64_t reduced = (number == 2 ? accumulation : 1) * (world > 1 ? result.parameters - own : 0);
            CHECK(sent(result, me) == 4 * (reduced + ring_elements(partition * world, world, me, true)));
          }
        }
}

TEST_CASE("a reduce per owner: GPT-2 Large's buckets have the slices of 6 and of 4 ranks, and the host waits before each") {
  const Words words = with(overlap, {{"use_multi_rank_bucket_allreduce", "false"}});
  const SchemeResult result = run(measured_gpt2_large(), stage(2, words));
  const std::vector<Span> reductions = collectives(result, Verb::reduce);
  std::map<int, std::int64_t> by_bucket, owners;
  for (const Span& span : reductions) by_bucket[span.unit] += span.size, ++owners[span.unit];
  CHECK(by_bucket == std::map<int, std::int64_t>{{0, 2 * 498'498'560}, {1, 2 * 275'591'680}});
  // The partition is 96,761,280 elements. In module order wte and wpe are the first 65,699,840, which come last; with them, in the
  // second bucket, go blocks 0 to 9 and the rest of block 10.
  CHECK(owners == std::map<int, std::int64_t>{{0, 6}, {1, 3}});
  for (std::size_t i = 1; i < reductions.size(); ++i)
    if (reductions[i].unit == reductions[i - 1].unit) CHECK(reductions[i].begin >= reductions[i - 1].end);
}

TEST_CASE("without contiguous gradients stage 2 reduces the same buckets from a copy, and holds none") {
  const SchemeResult result = run(measured_gpt2_large(), stage(2, with(overlap, {{"contiguous_gradients", "false"}})));
  const std::vector<Span> reductions = collectives(result, Verb::all_reduce);
  REQUIRE(reductions.size() == 2);
  CHECK(reductions[0].size == 2 * 498'498'560);
  CHECK(reductions[1].size == 2 * 275'591'680);
  std::int64_t most = 0, now = 0;
  for (const LedgerEntry& entry : result.ranks[0].entries)
    if (entry.band == Band::bucket) most = std::max(most, now += entry.bytes);
  CHECK(most == 2 * 498'498'560);
}

TEST_CASE("stage 1 with fp32 sums is another optimizer: 6 bytes on every rank, and one all-reduce of the whole gradient in bf16") {
  const Words words = stage(1, {{"grad_accum_dtype", "fp32"}});
  Scenario s = measured_gpt2_large();
  s.knobs.accumulation = 2;
  const SchemeResult result = run(s, words);
  CHECK(resident_of(result.ranks[0], Band::param) == 2 * all);
  CHECK(resident_of(result.ranks[0], Band::grad) == 4 * all);
  CHECK(resident_of(result.ranks[0], Band::opt) == 12 * all / 8);
  const std::vector<Span> reductions = collectives(result, Verb::all_reduce);
  REQUIRE(reductions.size() == 1);
  CHECK(reductions[0].size == 2 * all);
  CHECK(reductions[0].begin >= period(result, Verb::backward).second);
  CHECK(collectives(result, Verb::clip, true).empty());
  CHECK(sent(result) == 3 * 7 * 2 * all / 8);
}
