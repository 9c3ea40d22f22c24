// Prices of collectives against sums of NCCL's constants and public measurements; the line through two measured sizes.
#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>
#include <string>

#include "cost/collective.h"

using namespace shardsim;
using namespace shardsim::cost;

namespace {

doctest::Approx about(double value, double within = 1e-9) { return doctest::Approx(value).epsilon(within).scale(0); }

constexpr Wiring h100{
    .ranks = 8, .nodes = 1, .nvlink = true, .nvls = true, .generation = Generation::hopper, .ring_bandwidth = 370e9};
constexpr Wiring pcie{
    .ranks = 8, .nodes = 1, .nvlink = false, .nvls = false, .generation = Generation::blackwell, .ring_bandwidth = 18e9};

double microseconds(const Wiring& wiring, Verb verb, Algorithm algorithm, Protocol protocol) {
  return price(wiring, verb, 64, {.algorithm = algorithm, .protocol = protocol, .measured = {}}).latency * 1e6;
}

std::string refusal(const Wiring& wiring, Verb verb, const CollectiveRules& rules) {
  try {
    price(wiring, verb, 1e6, rules);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

std::string refusal(const std::vector<CollectiveRow>& rows) {
  try {
    fit_alpha_bus(rows);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

/// Times of a collective by size of the whole buffer, in MiB and microseconds.
struct Table {
  const char* source;
  Verb verb;
  int ranks;
  std::vector<std::pair<double, double>> rows;
};

}  // namespace

TEST_CASE("the latency of eight GPUs in one node is NCCL's base and a hop per step") {
  const Verb reduce = Verb::all_reduce, gather = Verb::all_gather;
  CHECK(microseconds(h100, reduce, Algorithm::ring, Protocol::ll) == about(6.6 + 14 * 0.6));
  CHECK(microseconds(h100, reduce, Algorithm::ring, Protocol::ll128) == about(14 + 14 * 1.9));
  CHECK(microseconds(h100, reduce, Algorithm::ring, Protocol::simple) == about(8.4 + 14 * 3.4));
  CHECK(microseconds(h100, gather, Algorithm::ring, Protocol::simple) == about(8.4 + 7 * 3.4));
  CHECK(microseconds(h100, reduce, Algorithm::tree, Protocol::simple) == about(8.4 + 14 * 4.0));
  CHECK(microseconds(h100, reduce, Algorithm::nvls, Protocol::simple) == about(25));
  CHECK(microseconds(pcie, gather, Algorithm::ring, Protocol::simple) == about(8.4 + 7 * 5.7));
  CHECK(microseconds(pcie, reduce, Algorithm::ring, Protocol::ll) == about(6.6 + 14 * 1.0));
}

TEST_CASE("over several nodes, a ring crosses the network once per node, and a tree once per level, up and down") {
  Wiring cluster = h100;
  cluster.ranks = 32, cluster.nodes = 4, cluster.nvls = false;
  // A hop inside a node is never faster than a network message is posted: 1 us with LL.
  CHECK(microseconds(cluster, Verb::all_gather, Algorithm::ring, Protocol::ll) == about(6.6 + 28 * 1.0 + 3 * 2.7));
  CHECK(microseconds(cluster, Verb::all_reduce, Algorithm::tree, Protocol::ll128) == about(14 + 2 * (7 * 1.25 + 2 * 8.5)));
  Wiring one_per_node = cluster;
  one_per_node.ranks = 4;
  CHECK(microseconds(one_per_node, Verb::all_gather, Algorithm::ring, Protocol::ll) == about(6.6 + 3 * 5.0));
  // An all-reduce that is not tiny: 1.4 times the sum, 1.9 times before Ampere.
  const CollectiveRules simple{.algorithm = Algorithm::ring, .protocol = Protocol::simple, .measured = {}};
  const double sum = 8.4 + 56 * 3.4 + 6 * 14.0;
  CHECK(price(cluster, Verb::all_reduce, 1e9, simple).latency * 1e6 == about(1.4 * sum));
  CHECK(price(cluster, Verb::all_reduce, 64, simple).latency * 1e6 == about(sum));
  cluster.generation = Generation::volta;
  CHECK(price(cluster, Verb::all_reduce, 1e9, simple).latency * 1e6 == about(1.9 * sum));
}

TEST_CASE("ring latencies over 1 to 128 nodes of eight GPUs are those of SimAI's public ratio table, within 10 % on average") {
  // aliyun/SimAI, inputs/ratio: times by size and nodes; latencies fitted to them, in us.
  const std::pair<int, double> table[] = {{1, 33}, {2, 88}, {4, 130}, {8, 266}, {16, 648}, {32, 1248}, {64, 2293}, {128, 4974}};
  double deviation = 0;
  for (const auto& [nodes, fitted] : table) {
    const Wiring wiring{.ranks = 8 * nodes, .nodes = nodes, .ring_bandwidth = 360e9};
    const CollectiveRules simple{.algorithm = {}, .protocol = Protocol::simple, .measured = {}};
    deviation += std::abs(price(wiring, Verb::all_gather, 1e9, simple).latency * 1e6 / fitted - 1) / 8;
  }
  CHECK(deviation < 0.10);
}

TEST_CASE("the choice is the fastest candidate; small buffers go with LL, larger ones with LL128, large ones with Simple") {
  for (const Wiring& wiring : {h100, pcie})
    for (const Verb verb : {Verb::all_reduce, Verb::reduce_scatter, Verb::all_gather}) {
      int last = 0;
      for (double bytes = 64; bytes < 1e10; bytes *= 2) {
        const CollectivePrice chosen = price(wiring, verb, bytes);
        double least = 1e9;
        for (const Algorithm algorithm : {Algorithm::ring, Algorithm::tree, Algorithm::nvls})
          for (const Protocol protocol : {Protocol::ll, Protocol::ll128, Protocol::simple}) {
            const CollectiveRules rules{.algorithm = algorithm, .protocol = protocol, .measured = {}};
            if (refusal(wiring, verb, rules).empty())
              least = std::min(least, price(wiring, verb, bytes, rules).seconds(verb, wiring.ranks, bytes));
          }
        CHECK(chosen.seconds(verb, wiring.ranks, bytes) == least);
        if (verb == Verb::all_reduce) continue;
        CHECK(chosen.algorithm == Algorithm::ring);
        CHECK(int(chosen.protocol) >= last);
        CHECK((wiring.nvlink || chosen.protocol != Protocol::ll128));
        last = int(chosen.protocol);
      }
      if (verb != Verb::all_reduce) CHECK(last == int(Protocol::simple));
    }
  CHECK(price(h100, Verb::all_gather, 64).protocol == Protocol::ll);
  CHECK(price(h100, Verb::all_gather, 8e6).protocol == Protocol::ll128);
  CHECK(price(h100, Verb::all_gather, 1e9).bus_bandwidth == 370e9);  // all of the ring's
}

TEST_CASE("protocols reach their share of the ring's bandwidth, and LL no more than its cap") {
  auto bus = [](const Wiring& wiring, Protocol protocol) {
    return price(wiring, Verb::all_gather, 1e9, {.algorithm = {}, .protocol = protocol, .measured = {}}).bus_bandwidth / 1e9;
  };
  CHECK(bus(h100, Protocol::ll128) == about(0.92 * 370));
  CHECK(bus(h100, Protocol::ll) == about(141));  // Hopper's
  CHECK(bus(pcie, Protocol::ll) == about(0.5 * 18));
  Wiring cluster = h100;
  cluster.ranks = 16, cluster.nodes = 2;
  CHECK(bus(cluster, Protocol::ll) == about(39));
}

TEST_CASE("trees serve medium all-reduces over many nodes; their bandwidth is corrected by size") {
  Wiring cluster{
      .ranks = 512, .nodes = 64, .nvlink = true, .nvls = false, .generation = Generation::hopper, .ring_bandwidth = 360e9};
  CHECK(price(cluster, Verb::all_reduce, 1 << 20).algorithm == Algorithm::tree);
  CHECK(price(cluster, Verb::all_gather, 1 << 20).algorithm == Algorithm::ring);
  const CollectiveRules tree{.algorithm = Algorithm::tree, .protocol = Protocol::simple, .measured = {}};
  // 1 MiB is 2^14 times 64 B: half of 0.92 of the ring's bandwidth; the bus counts 2 x 511/512 of two passes.
  CHECK(price(cluster, Verb::all_reduce, 1 << 20, tree).bus_bandwidth == about(0.5 * 0.92 * 360e9 * 511 / 512));
}

TEST_CASE("all-reduces in the switch come near their measured bus bandwidth, from that of a measured ring") {
  struct Machine {
    Generation generation;
    double ring, nvls;
  };
  // GB/s for eight GPUs. H100: NVIDIA/nccl-tests#212; H200 and B200: stas00/ml-engineering, network/README.md.
  for (const auto& [generation, ring, nvls] :
       {Machine{Generation::hopper, 370, 480}, {Generation::hopper, 367, 480}, {Generation::blackwell, 680, 838}}) {
    Wiring wiring = h100;
    wiring.generation = generation, wiring.ring_bandwidth = ring * 1e9;
    const CollectivePrice chosen = price(wiring, Verb::all_reduce, 1e9);
    CHECK(chosen.algorithm == Algorithm::nvls);
    CHECK(chosen.bus_bandwidth / 1e9 == about(nvls, 0.08));
  }
}

TEST_CASE("the switch adds for all-reduces of at least six GPUs of one node, unless it is told to") {
  Wiring four = h100, two_nodes = h100;
  four.ranks = 4, two_nodes.ranks = 16, two_nodes.nodes = 2;
  CHECK(price(four, Verb::all_reduce, 1e9).algorithm == Algorithm::ring);
  CHECK(price(two_nodes, Verb::all_reduce, 1e9).algorithm == Algorithm::ring);
  const CollectiveRules nvls{.algorithm = Algorithm::nvls, .protocol = {}, .measured = {}};
  CHECK(price(four, Verb::all_reduce, 1e9, nvls).algorithm == Algorithm::nvls);
  CHECK(price(h100, Verb::all_gather, 1e9, nvls).algorithm == Algorithm::ring);
}

TEST_CASE("what cannot run is refused, with the reason") {
  CHECK(refusal(pcie, Verb::all_gather, {.algorithm = {}, .protocol = Protocol::ll128, .measured = {}}).find("needs NVLink") <
        std::string::npos);
  CHECK(refusal(pcie, Verb::all_reduce, {.algorithm = Algorithm::nvls, .protocol = {}, .measured = {}}).find("nvls: yes") <
        std::string::npos);
  CHECK(refusal(h100, Verb::all_reduce, {.algorithm = Algorithm::nvls, .protocol = Protocol::ll, .measured = {}}).find("Simple") <
        std::string::npos);
}

TEST_CASE("an all-to-all costs NCCL's base and one hop, and what its members send at once") {
  Wiring cluster = h100;
  cluster.pairs_bandwidth = 300e9;
  const CollectivePrice inside = price(cluster, Verb::all_to_all, 8e8);
  CHECK(inside.latency * 1e6 == about(8.4 + 3.4));
  CHECK(inside.seconds(Verb::all_to_all, 8, 8e8) == about(11.8e-6 + 7e8 / 300e9));
  CHECK(in_words(inside, Verb::all_to_all, 8, 8e8, {}, "NCCL") ==
        "all_to_all of 8e+08 B over 8 ranks: pairs, Simple: 11.8 us (NCCL) + 7e+08 B / 300 GB/s (platform) = 2345 us");
  cluster.ranks = 16, cluster.nodes = 2;
  CHECK(price(cluster, Verb::all_to_all, 64).latency * 1e6 == about(8.4 + 14));  // whatever the size: sends have Simple
  CollectiveRules rules{.algorithm = Algorithm::tree, .protocol = Protocol::ll, .measured = {}};
  CHECK(price(cluster, Verb::all_to_all, 64, rules).algorithm == Algorithm::pairs);
  rules.of(Verb::all_to_all) = {.bus = 20e9, .alpha = 40e-6};
  CHECK(price(cluster, Verb::all_to_all, 16e6, rules).seconds(Verb::all_to_all, 16, 16e6) == about(40e-6 + 15e6 / 20e9));
}

TEST_CASE("measured values replace the tuner's, each for itself, and are named as such") {
  CollectiveRules rules;
  rules.of(Verb::all_gather).bus = 361e9;
  const CollectivePrice chosen = price(h100, Verb::all_gather, 1e9, rules);
  CHECK(chosen.bus_bandwidth == 361e9);
  CHECK(chosen.latency == price(h100, Verb::all_gather, 1e9).latency);
  CHECK(price(h100, Verb::reduce_scatter, 1e9, rules).bus_bandwidth == 370e9);
  rules.of(Verb::all_gather).alpha = 33e-6;
  CHECK(in_words(price(h100, Verb::all_gather, 1e9, rules), Verb::all_gather, 8, 1e9, rules, "NCCL") ==
        "all_gather of 1e+09 B over 8 ranks: ring, Simple: 33 us (scenario) + 8.75e+08 B / 361 GB/s (scenario) = 2457 us");
  CHECK(in_words(price(h100, Verb::all_gather, 1e9), Verb::all_gather, 8, 1e9, {}, "NCCL") ==
        "all_gather of 1e+09 B over 8 ranks: ring, Simple: 32.2 us (NCCL) + 8.75e+08 B / 370 GB/s (platform) = 2397 us");
}

TEST_CASE("a line through two sizes is exact, and contradicting rows are refused") {
  auto row = [](double bytes, double seconds) { return CollectiveRow{Verb::all_reduce, 8, bytes, seconds}; };
  const AlphaBus through = fit_alpha_bus({row(16e6, 100e-6 + 28e6 / 200e9), row(1e9, 100e-6 + 1.75e9 / 200e9)});
  CHECK(through.alpha == about(100e-6, 1e-6));
  CHECK(through.bus == about(200e9, 1e-6));
  CHECK(through.seconds(Verb::all_reduce, 8, 64e6) == about(100e-6 + 112e6 / 200e9, 1e-6));
  // Where a line would begin below 0, it begins at 0, and errs as little as it can.
  const AlphaBus proportional = fit_alpha_bus({row(1e6, 10e-6), row(1e8, 1100e-6)});
  CHECK(proportional.alpha == 0);
  CHECK(proportional.bus == about(1.75e6 * (0.1 * 0.1 + 1 / 11. * 1 / 11.) / (0.1 + 1 / 11.) * 1e6, 1e-6));
  CHECK(refusal({row(1e6, 1e-3), row(1e6, 2e-3)}).find("two sizes") < std::string::npos);
  CHECK(refusal({row(1e6, 1e-3)}).find("two sizes") < std::string::npos);
  CHECK(refusal({row(1e6, 1e-3), row(1e9, 1e-3)}).find("contradict") < std::string::npos);
  CHECK(refusal({row(1e6, 0), row(1e9, 1e-3)}).find("greater than 0") < std::string::npos);
}

TEST_CASE("alpha and bus bandwidth of the smallest and the largest size from 16 MiB up predict the others within 12 %") {
  const Table tables[] = {
      {"A100 NVSwitch: VIA-Research/vTrain, trace/a100",
       Verb::all_reduce,
       8,
       {{16, 232.4}, {32, 358.1}, {64, 579.9}, {128, 1162}, {256, 2162.3}, {512, 4191.5}, {1024, 8193}}},
      {"A100 pair: VIA-Research/vTrain, trace/a100",
       Verb::all_reduce,
       2,
       {{16, 131.9}, {32, 230}, {64, 404.7}, {128, 763.6}, {256, 1455.8}, {512, 2838.4}, {1024, 5442.8}}},
      {"H200 with NVLS: stas00/ml-engineering, network/README.md",
       Verb::all_reduce,
       8,
       {{16, 133.52}, {32, 212.88}, {64, 338.92}, {128, 584.39}, {256, 1077.06}, {512, 2086.48}, {1024, 4053.39}}},
      {"RTX PRO 6000 over PCIe: Dominator-Index.github.io, collective communication",
       Verb::all_gather,
       8,
       {{16, 797.5}, {256, 12354.3}, {1024, 49338.9}}},
      {"RTX PRO 6000 over PCIe: Dominator-Index.github.io, collective communication",
       Verb::reduce_scatter,
       8,
       {{16, 954.9}, {256, 14816.7}, {1024, 59226.4}}},
      {"2 x 8 A100 over EFA: awslabs/awsome-distributed-training, nccl-tests",
       Verb::all_reduce,
       16,
       {{16, 1191.8}, {32, 1540.2}, {64, 2644.6}, {128, 3912.9}, {256, 7201.7}, {512, 13552}, {1024, 26217}, {2048, 51406}}},
  };
  for (const Table& table : tables) {
    const auto row = [&table](std::size_t i) {
      return CollectiveRow{table.verb, table.ranks, table.rows[i].first * 1048576, table.rows[i].second * 1e-6};
    };
    const AlphaBus fit = fit_alpha_bus({row(0), row(table.rows.size() - 1)});
    for (std::size_t i = 1; i + 1 < table.rows.size(); ++i) {
      INFO(table.source << ", " << table.rows[i].first << " MiB");
      CHECK(fit.seconds(table.verb, table.ranks, row(i).bytes) == about(row(i).seconds, 0.12));
    }
  }
}
