// Collective prices: NCCL's tuner as a table of constants and one choice; and a least-squares line.
#include "cost/collective.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>

#include "core/formulas.h"

namespace shardsim::cost {
namespace {

// NCCL's constants, by protocol: LL, LL128, Simple. Microseconds, GB/s.
using ByProtocol = std::array<double, 3>;
constexpr ByProtocol ring_base{6.6, 14.0, 8.4}, tree_base{6.8, 14.0, 8.4};
constexpr ByProtocol ring_nvlink{0.6, 1.9, 3.4}, ring_pcie{1.0, 2.5, 5.7}, ring_network{2.7, 4.0, 14.0};
constexpr ByProtocol tree_nvlink{0.6, 1.25, 4.0}, tree_pcie{1.0, 1.9, 4.0}, tree_network{5.0, 8.5, 14.0};
constexpr ByProtocol post_overhead{1.0, 1.0, 3.0};  // of a network message on an Intel host: a hop is never faster on several nodes
constexpr double nvls_latency = 25;
constexpr double ll_most[] = {39, 87.7, 141, 282};  // by generation, one node
constexpr double ll_most_two_nodes = 39, ll_most_more_nodes = 20.4;

/// What trees reach of their bandwidth, by the size's power of two from 64 B on.
constexpr double tree_correction[3][24] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}};

double most_of_ll(const Wiring& w) {
  if (w.nodes == 1) return ll_most[int(w.generation)] * 1e9;
  return (w.nodes == 2 ? ll_most_two_nodes : ll_most_more_nodes) * 1e9;
}

CollectivePrice in_ring(const Wiring& w, Protocol protocol, Verb verb, double bytes) {
  const auto p = std::size_t(protocol);
  const bool all_reduce = verb == Verb::all_reduce;
  const double steps = is_rooted(verb) ? w.ranks : (all_reduce ? 2 : 1) * (w.ranks - 1),
               between = (all_reduce ? 2 : 1) * (w.nodes - 1);
  double inside = w.nvlink ? ring_nvlink[p] : ring_pcie[p];
  if (w.nodes > 1) inside = std::max(inside, post_overhead[p]);
  const double network = w.ranks == w.nodes ? tree_network[p] : ring_network[p];
  double latency = ring_base[p] + (steps - between) * inside + between * network;
  constexpr double channels = 16;
  if (protocol == Protocol::simple && all_reduce && w.nodes > 1 && bytes / (channels * w.ranks) >= 64)
    latency *= w.generation == Generation::volta ? 1.9 : 1.4;
  double bandwidth = w.ring_bandwidth;
  if (protocol == Protocol::ll) bandwidth = std::min(most_of_ll(w), 0.5 * bandwidth);
  if (protocol == Protocol::ll128) bandwidth *= 0.92;
  return {Algorithm::ring, protocol, latency * 1e-6, bandwidth};
}

CollectivePrice in_tree(const Wiring& w, Protocol protocol, double bytes) {
  const auto p = std::size_t(protocol);
  const double inside = w.nvlink ? tree_nvlink[p] : tree_pcie[p];
  const double levels = std::floor(std::log2(double(w.nodes)));
  const double latency = tree_base[p] + 2 * ((double(w.ranks) / w.nodes - 1) * inside + levels * tree_network[p]);
  double bandwidth = 0.92 * w.ring_bandwidth;
  if (protocol == Protocol::ll) bandwidth = std::min(bandwidth / 3.8, most_of_ll(w));
  if (protocol == Protocol::ll128) bandwidth *= w.nodes == 1 ? 7.0 / 9 : 120.0 / 128;
  const int size = int(std::floor(std::log2(std::max(bytes, 64.0) / 64)));
  if (size < 24) bandwidth *= tree_correction[p][size];
  // A tree moves the buffer twice, up and down; as a bus bandwidth, that is 2 (n-1)/n of it in the time of 2.
  return {Algorithm::tree, protocol, latency * 1e-6, bandwidth * (w.ranks - 1) / w.ranks};
}

/// A port carries each byte once to the switch and a sum of 1/n of them back, and the same for the results: (n+1)/n instead of a
/// ring's 2 (n-1)/n, at NCCL's efficiency for it.
CollectivePrice in_switch(const Wiring& w) {
  const double efficiency = w.generation == Generation::blackwell ? 0.74 : 0.85;
  const double gain = 2.0 * (w.ranks - 1) / (w.ranks + 1);
  return {Algorithm::nvls, Protocol::simple, nvls_latency * 1e-6, w.ring_bandwidth * efficiency * gain};
}

/// A large message's latency is that of one hop.
CollectivePrice in_pairs(const Wiring& w) {
  const auto p = std::size_t(Protocol::simple);
  const double hop = w.nodes > 1 ? ring_network[p] : w.nvlink ? ring_nvlink[p] : ring_pcie[p];
  return {Algorithm::pairs, Protocol::simple, (ring_base[p] + hop) * 1e-6, w.pairs_bandwidth};
}

void check(const Wiring& w, Verb verb, const CollectiveRules& rules) {
  if (rules.protocol == Protocol::ll128 && !w.nvlink)
    throw std::invalid_argument("protocol LL128 needs NVLink: over PCIe, NCCL has LL and Simple");
  if (verb != Verb::all_reduce || rules.algorithm != Algorithm::nvls) return;
  if (!w.nvls || w.nodes > 1)
    throw std::invalid_argument("algorithm nvls needs the GPUs of one node, all with the property nvls: yes");
  if (rules.protocol && rules.protocol != Protocol::simple)
    throw std::invalid_argument("algorithm nvls has no other protocol than Simple");
}

}  // namespace

const char* name_of(Algorithm algorithm) {
  constexpr const char* names[] = {"ring", "tree", "nvls", "pairs"};
  return names[int(algorithm)];
}

const char* name_of(Protocol protocol) {
  constexpr const char* names[] = {"LL", "LL128", "Simple"};
  return names[int(protocol)];
}

std::optional<Generation> generation_of(const std::string& name) {
  constexpr const char* names[] = {"volta", "ampere", "hopper", "blackwell"};
  for (int i = 0; i < 4; ++i)
    if (name == names[i]) return Generation(i);
  return {};
}

Measured& CollectiveRules::of(Verb verb) { return measured.at(std::size_t(verb) - std::size_t(Verb::all_reduce)); }
const Measured& CollectiveRules::of(Verb verb) const { return const_cast<CollectiveRules*>(this)->of(verb); }

double CollectivePrice::seconds(Verb verb, int ranks, double bytes) const {
  return latency + formulas::sent_bytes(verb, ranks, bytes) / bus_bandwidth;
}

CollectivePrice price(const Wiring& wiring, Verb verb, double bytes, const CollectiveRules& rules) {
  check(wiring, verb, rules);
  if (verb == Verb::all_to_all) return overridden(in_pairs(wiring), verb, rules);
  const bool all_reduce = verb == Verb::all_reduce;
  std::optional<CollectivePrice> best;
  auto offer = [&](const CollectivePrice& candidate) {
    if (all_reduce && rules.algorithm && rules.algorithm != candidate.algorithm) return;
    if (rules.protocol && rules.protocol != candidate.protocol) return;
    if (candidate.protocol == Protocol::ll128 && !wiring.nvlink) return;
    if (!best || candidate.seconds(verb, wiring.ranks, bytes) < best->seconds(verb, wiring.ranks, bytes)) best = candidate;
  };
  // NCCL runs an all-reduce in the switch from 6 GPUs on, unless it is told to.
  constexpr int fewest_for_nvls = 6;
  if (all_reduce && wiring.nvls && wiring.nodes == 1 && (rules.algorithm || wiring.ranks >= fewest_for_nvls))
    offer(in_switch(wiring));
  for (const Protocol protocol : {Protocol::simple, Protocol::ll128, Protocol::ll}) {
    offer(in_ring(wiring, protocol, verb, bytes));
    if (all_reduce) offer(in_tree(wiring, protocol, bytes));
  }
  return overridden(*best, verb, rules);
}

CollectivePrice overridden(CollectivePrice price, Verb verb, const CollectiveRules& rules) {
  const Measured& measured = rules.of(verb);
  price.latency = measured.alpha.value_or(price.latency);
  price.bus_bandwidth = measured.bus.value_or(price.bus_bandwidth);
  return price;
}

std::string in_words(const CollectivePrice& price, Verb verb, int ranks, double bytes, const CollectiveRules& rules,
                     const char* origin) {
  const Measured& measured = rules.of(verb);
  char text[256];
  std::snprintf(text, sizeof text, "%s of %.4g B over %d ranks: %s, %s: %.4g us (%s) + %.6g B / %.4g GB/s (%s) = %.4g us",
                shardsim::name_of(verb), bytes, ranks, name_of(price.algorithm), name_of(price.protocol), price.latency * 1e6,
                measured.alpha ? "scenario" : origin, formulas::sent_bytes(verb, ranks, bytes), price.bus_bandwidth / 1e9,
                measured.bus ? "scenario" : "platform", price.seconds(verb, ranks, bytes) * 1e6);
  return text;
}

double AlphaBus::seconds(Verb verb, int ranks, double bytes) const {
  return alpha + formulas::sent_bytes(verb, ranks, bytes) / bus;
}

AlphaBus fit_alpha_bus(const std::vector<CollectiveRow>& rows) {
  // seconds = alpha + sent x inverse, each row weighed with 1 / seconds: normal equations of two unknowns.
  double aa = 0, ab = 0, bb = 0, a = 0, b = 0, least = 0, most = 0;
  for (const CollectiveRow& row : rows) {
    if (!(row.seconds > 0)) throw std::invalid_argument("a measured collective takes a time greater than 0");
    const double sent = formulas::sent_bytes(row.verb, row.ranks, row.bytes), one = 1 / row.seconds, x = sent / row.seconds;
    least = &row == &rows.front() ? sent : std::min(least, sent), most = std::max(most, sent);
    aa += one * one, ab += one * x, bb += x * x, a += one, b += x;
  }
  if (!(least < most)) throw std::invalid_argument("a latency and a bandwidth need rows of two sizes at least");
  const double determinant = aa * bb - ab * ab;
  double alpha = (a * bb - b * ab) / determinant, inverse = (b * aa - a * ab) / determinant;
  if (!(inverse > 0))
    throw std::invalid_argument("the rows contradict each other: larger collectives take no longer than smaller ones");
  if (alpha < 0) alpha = 0, inverse = b / bb;
  return {alpha, 1 / inverse};
}

}  // namespace shardsim::cost
