// deepspeed stage 3 with zero_quantized_gradients (ZeRO++'s qgZ): what goes where in how many bits, what is held, and what it does
// to the loss.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "app/scenario_parts.h"
#include "core/error.h"
#include "systems/deepspeed_runs.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

/// Every use is a gather, and nothing persists.
const Words every_use{
    {"stage3_prefetch_bucket_size", "0"}, {"stage3_max_reuse_distance", "0"}, {"stage3_param_persistence_threshold", "0"}};
const Words qgz{{"zero_quantized_gradients", "true"}};

Words stage3(const Words& words, const Words& more = {}) { return stage(3, with(words, more)); }

struct Matrix {
  std::int64_t rows, cols;
};

/// A GPT-2 of which every matrix has rows or columns that `width`, a multiple of 8, divides.
Scenario divisible(int width, int world, int per_node) {
  Scenario s = thin_gpt2(false);
  TransformerShape& shape = s.transformer->shape;
  shape.hidden = width, shape.heads = shape.kv_heads = 4, shape.head_dim = width / 4, shape.ffn = 4 * width;
  shape.vocab = 2 * width, shape.positions = width;
  s.world = world, s.knobs.shards = per_node;
  return s;
}

std::vector<Matrix> matrices_of(const TransformerShape& shape) {
  const std::int64_t d = shape.hidden;
  std::vector<Matrix> all{{shape.vocab, d}, {shape.positions, d}, {shape.vocab, d}};
  for (int block = 0; block < shape.layers; ++block)
    for (const Matrix& matrix : {Matrix{d, 3 * d}, {d, d}, {d, shape.ffn}, {shape.ffn, d}}) all.push_back(matrix);
  return all;
}

/// Restated: half a byte per element and four bytes for each row or column, whichever are more; (L-1)/L of it to the others in a
/// node, and of a L-th of it (R-1)/R to other nodes.
std::int64_t bytes_in_node(const Matrix& m, int nodes, int per_node) {
  const std::int64_t groups = std::max({m.rows, m.cols, std::int64_t(nodes) * per_node});
  return (m.rows * m.cols / 2 + 4 * groups) / per_node * (per_node - 1);
}
std::int64_t bytes_between_nodes(const Matrix& m, int nodes, int per_node) {
  const std::int64_t groups = std::max({m.rows, m.cols, std::int64_t(nodes) * per_node});
  return (m.rows * m.cols / 2 + 4 * groups) / per_node / nodes * (nodes - 1);
}

constexpr std::int64_t elements_of(const Matrix& m) { return m.rows * m.cols; }

}  // namespace

TEST_CASE("gradients of matrices go in half bytes within a node and then across nodes, to the element, from messages") {
  const PlatformFile platform(IdealGpus{.gpus = 64});
  for (const auto& [nodes, per_node] : std::vector<std::pair<int, int>>{{1, 1}, {2, 1}, {3, 1}, {2, 4}, {4, 2}, {8, 1}, {8, 8}})
    for (const int accumulation : {1, 2}) {
      const int n = nodes * per_node;
      if (n > counted_worlds.back() || (n == 64 && accumulation == 2)) continue;  // many messages
      INFO(nodes << " nodes of " << per_node << ", accumulation " << accumulation);
      Scenario s = divisible(8 * n, n, per_node);
      s.platform = platform.path(), s.steps = 2, s.fabric = Fidelity::ring, s.numerics = Numerics::off;
      s.knobs.accumulation = accumulation;
      const SchemeResult plain = run(s, stage3(every_use)), mine = run(s, stage3(every_use, qgz));
      std::int64_t scattered = 0, quantized = 0;
      for (const Matrix& m : matrices_of(s.transformer->shape)) {
        scattered += 4 * elements_of(m) / n * (n - 1);
        quantized += nodes == 1 ? 4 * elements_of(m) / n * (n - 1)
                                : bytes_in_node(m, nodes, per_node) + bytes_between_nodes(m, nodes, per_node);
      }
      for (int rank = 0; rank < n; ++rank)
        CHECK(plain.ranks[std::size_t(rank)].traffic_bytes - mine.ranks[std::size_t(rank)].traffic_bytes ==
              s.steps * accumulation * (scattered - quantized));
      const std::size_t all = matrices_of(s.transformer->shape).size();
      CHECK(collectives(mine, Verb::all_to_all).size() == (nodes == 1 ? 0 : 4 * std::size_t(accumulation) * all));
    }
}

TEST_CASE("what the ranks do not share in pairs of elements is reduced and scattered by itself, as vectors are") {
  Scenario s = divisible(24, 3, 1);
  s.transformer->shape.vocab = 25;  // 25 x 24 elements are 100 pairs for each of three ranks, in groups of a row: refused
  CHECK_THROWS_WITH_AS(run(s, stage3(qgz)), doctest::Contains("25 groups of 24 elements are no even groups for each of 3 ranks"),
                       ScenarioError);
  s = thin_gpt2();  // 29 x 20 elements; three ranks would need a multiple of six
  s.knobs.shards = 1, s.numerics = Numerics::off;
  s.transformer->shape.positions = 13, s.transformer->shape.ffn = 45;
  const SchemeResult mine = run(s, stage3(every_use, qgz));
  // Of two blocks, 20 x 60, 20 x 45 and 45 x 20 are multiples of six, and their sixty or forty-five groups of three.
  CHECK(collectives(mine, Verb::all_to_all).size() == 2 * 3 * 4);
  const std::vector<Span> alone = collectives(mine, Verb::reduce_scatter);
  CHECK(alone.size() == mine.unit_parameters.size() - 2 * 3);
}

TEST_CASE("what is no multiple of two elements per rank goes round all ranks in its own type, to the element, from messages") {
  const PlatformFile platform(IdealGpus{.gpus = 64});
  for (const auto& [nodes, per_node] : std::vector<std::pair<int, int>>{{2, 1}, {3, 1}, {2, 4}, {4, 2}, {8, 1}, {8, 8}}) {
    const int n = nodes * per_node;
    if (n > counted_worlds.back()) continue;
    INFO(nodes << " nodes of " << per_node);
    Scenario s = thin_gpt2(false);
    TransformerShape& shape = s.transformer->shape;
    // Tables have an odd number of rows of n (or of nine) elements. Rows of nine are no even groups, but columns of six are.
    shape.hidden = shape.head_dim = n == 3 ? 9 : n, shape.heads = shape.kv_heads = 1, shape.ffn = n == 3 ? 6 : 4 * n;
    shape.vocab = n + n % 2 + 9, shape.positions = n + n % 2 + 7;
    s.world = n, s.knobs.shards = per_node, s.platform = platform.path(), s.steps = 2, s.fabric = Fidelity::ring;
    s.numerics = Numerics::off;
    const SchemeResult plain = run(s, stage3(every_use)), mine = run(s, stage3(every_use, qgz));
    std::int64_t saved = 0;
    std::size_t quantized = 0;
    for (const Matrix& m : matrices_of(shape)) {
      if (elements_of(m) % (2 * n) != 0) continue;  // alike in both
      ++quantized;
      saved += 4 * elements_of(m) / n * (n - 1) - bytes_in_node(m, nodes, per_node) - bytes_between_nodes(m, nodes, per_node);
    }
    CHECK(quantized == (n == 3 ? 4 : 8));
    for (int rank = 0; rank < n; ++rank)
      CHECK(plain.ranks[std::size_t(rank)].traffic_bytes - mine.ranks[std::size_t(rank)].traffic_bytes == s.steps * saved);
    CHECK(collectives(mine, Verb::all_to_all).size() == 4 * quantized);
    CHECK(collectives(mine, Verb::reduce_scatter).size() == mine.unit_parameters.size() - quantized);
  }
}

TEST_CASE("on one node, and on one rank, it is stage 3, bit for bit") {
  for (const int world : {1, 4}) {
    Scenario s = divisible(32, world, world);
    const SchemeResult plain = run(s, stage3(every_use)), mine = run(s, stage3(every_use, qgz));
    CHECK(mine.theta == plain.theta);
    check_same_costs(mine, plain);
  }
}

TEST_CASE(
    "quantized gradients change the loss: not in the first step, a little in the second, by less than a quarter in 100 steps") {
  for (const auto& [nodes, per_node] : std::vector<std::pair<int, int>>{{2, 4}, {8, 1}}) {
    Scenario s = divisible(64, 8, per_node);
    s.steps = 100;
    const SchemeResult plain = run(s, stage3(every_use)), mine = run(s, stage3(every_use, qgz));
    const double worst = worst_difference(mine.ranks[0].losses, plain.ranks[0].losses);
    MESSAGE(nodes << " nodes of " << per_node << ": relative difference of the loss: " << worst << " at most, "
                  << std::abs(double(mine.ranks[0].losses[1]) / plain.ranks[0].losses[1] - 1) << " in the second step");
    CHECK(mine.ranks[0].losses[0] == plain.ranks[0].losses[0]);
    CHECK(mine.ranks[0].losses[1] != plain.ranks[0].losses[1]);
    CHECK(mine.ranks[0].losses[1] == doctest::Approx(plain.ranks[0].losses[1]).epsilon(0.01));
    CHECK(worst > 1e-3);
    CHECK(worst < 0.25);
    CHECK(mine.ranks[0].losses.back() < 0.9 * mine.ranks[0].losses.front());
  }
}

TEST_CASE(
    "it trains alike on threads, with micro-batches, clipping, gradients of their own storage, offloading and all of ZeRO++") {
  Scenario s = divisible(64, 8, 4);
  s.knobs.accumulation = 2, s.knobs.clip = 0.5f, s.steps = 5;
  const SchemeResult plain = run(s, stage3(every_use));
  for (const Words& words :
       {Words{}, Words{{"reduce_bucket_size", "9000"}}, Words{{"contiguous_gradients", "false"}}, Words{{"overlap_comm", "false"}},
        Words{{"offload_optimizer", "cpu"}}, Words{{"zero_quantized_weights", "true"}, {"zero_hpz_partition_size", "4"}}}) {
    INFO(words.size() << " options, " << (words.empty() ? "" : words.begin()->first));
    s.backend = "simgrid";
    s.prices.values = {{cost::facts_named("host_memory_bandwidth").front(), 60e9, {}},
                       {cost::facts_named("host_link_bandwidth").front(), 48e9, {}}};
    const SchemeResult simgrid = run(s, stage3(with(every_use, qgz), words));
    CHECK(simgrid.theta != plain.theta);
    CHECK(worst_difference(simgrid.ranks[0].losses, plain.ranks[0].losses) < 0.05);
    s.backend = "threads";
    CHECK(run(s, stage3(with(every_use, qgz), words)).theta == simgrid.theta);
  }
}

TEST_CASE(
    "a gradient is quantized beside its bucket: at most its two halves, their sum, and what becomes of it are there at once") {
  Scenario s = gpt2_large();
  s.platform = platforms_folder() / "dgx-h100-x4-1nic.xml";
  s.world = 32, s.recorded_ranks = 1, s.knobs.shards = 8;
  const SchemeResult mine = run(s, stage3(qgz));
  // The table of 50304 tokens, a scale each: a half byte per element sent and received, an eighth of that summed and received from
  // the other nodes; then an eighth and the mean of one in 32, in bf16.
  const std::int64_t table = 64'389'120, half = table / 2 + 4 * 50304;
  CHECK(most(mine, Band::bucket) == 2 * 500'000'000 + 2 * half + 2 * half / 8 + 2 * table / 8 + 2 * table / 32);
}

TEST_CASE(
    "over each NIC go only sums for other nodes, in less time; but each vector's reduce-scatter pays a ring's latency alone") {
  Scenario s = gpt2_large();
  s.platform = platforms_folder() / "dgx-h100-x4-1nic.xml";
  s.world = 32, s.recorded_ranks = 1, s.steps = 1, s.knobs.shards = 8;
  const auto over_nic = [&](const SchemeResult& result) {
    std::int64_t most = 0;
    for (const LinkLoad& load : result.links)
      if (load.link.find("nics_UP") != std::string::npos) most = std::max(most, std::int64_t(std::llround(load.bytes)));
    return most;
  };
  const SchemeResult plain = run(s, stage3(every_use)), mine = run(s, stage3(every_use, qgz));
  std::int64_t scattered = 0, between = 0;
  TransformerShape shape = s.transformer->shape;
  for (const Matrix& m : matrices_of(shape)) {
    if (shape.tied && m.rows == shape.vocab && scattered > 2 * shape.vocab) continue;  // the table, met a second time
    scattered += 2 * elements_of(m) / 32 * 31;
    between += 8 * bytes_between_nodes(m, 4, 8);
  }
  CHECK(over_nic(plain) - over_nic(mine) == scattered - between);
  const auto seconds = [](const SchemeResult& result, Verb verb) {
    double sum = 0;
    for (const Span& span : collectives(result, verb)) sum += span.end - span.begin;
    return sum;
  };
  CHECK(seconds(mine, Verb::all_to_all) < 0.4 * seconds(plain, Verb::reduce_scatter));
  // 290 vectors of GPT-2 Large in place of two buckets: what 4 bits gain is lost again.
  CHECK(collectives(mine, Verb::reduce_scatter).size() == 290);
  CHECK(seconds(mine, Verb::reduce_scatter) > 290 * 31 * 1e-6);
  CHECK(mine.ranks[0].step_end.back() > plain.ranks[0].step_end.back());
}

TEST_CASE("a missing wait before quantizing, or before the update, is named by the hazard checker, on both backends") {
  for (const char* backend : {"simgrid", "threads"})
    for (const auto& [edge, op] :
         {std::pair{Edge::gradient_before_reduction, "copy"}, {Edge::reduction_before_update, "sum_squares"}})
      for (const char* contiguous : {"true", "false"}) {
        Scenario s = divisible(64, 4, 2);
        s.backend = backend, s.numerics = Numerics::off, s.knobs.step_barrier = false;
        const Words words = stage3(with(every_use, qgz), {{"contiguous_gradients", contiguous}});
        CHECK_NOTHROW(run(s, words));
        s.knobs.omitted = edge;
        // Where gradients are not copied into a bucket, it is the quantizer that comes too early.
        const bool quantizes = edge == Edge::gradient_before_reduction && contiguous == std::string("false");
        CHECK_THROWS_WITH_AS(run(s, words), doctest::Contains(quantizes ? "quantize" : op), IllegalStep);
      }
}

TEST_CASE("numerics full, twin and off give quantized gradients the same seconds and bytes, to the bit") {
  Scenario s = divisible(64, 8, 4);
  s.transformer->twin_hidden = 8, s.transformer->twin_heads = 2, s.transformer->twin_vocab = 11, s.transformer->twin_sequence = 5;
  const Words words = stage3(every_use, qgz);
  const SchemeResult full = run(s, words);
  for (const Numerics numerics : {Numerics::twin, Numerics::off}) {
    s.numerics = numerics;
    check_same_costs(run(s, words), full);
  }
}

TEST_CASE("its timeline tells of the two hops, and options that contradict it are refused") {
  Scenario s = divisible(64, 4, 2);
  s.tells_timeline = true;
  const std::vector<TimelineEntry> timeline = run(s, stage3(qgz)).timeline;
  CHECK(std::any_of(timeline.begin(), timeline.end(), [](const TimelineEntry& entry) {
    return entry.what.starts_with("all_to_all within a node and across nodes, in 4 bits, or else reduce_scatter: one by one, of ");
  }));
  s.knobs.precision.reduce = Dtype::bf16;
  CHECK_THROWS_WITH_AS(run(s, stage3(qgz)), doctest::Contains("leave precision.reduce out"), ScenarioError);
  s.knobs.precision = {}, s.knobs.shards = 0;
  CHECK_THROWS_WITH_AS(run(s, stage3(qgz)), doctest::Contains("mesh: {replicas: nodes, shards: ranks per node}"), ScenarioError);
  for (const auto& [words, what] : std::vector<std::pair<Words, const char*>>{
           {{{"reduce_scatter", "false"}}, "nothing is quantized"}, {{{"mics_shard_size", "2"}}, "MiCS reduces in its own way"}})
    CHECK_THROWS_WITH_AS(run(s, stage3(qgz, words)), doctest::Contains(what), std::invalid_argument);
}
