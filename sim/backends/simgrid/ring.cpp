// Ring: routes, latencies, and the virtual routes of coupled transfers.
#include "backends/simgrid/ring.h"

#include <simgrid/s4u.hpp>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "core/error.h"

namespace shardsim::simgrid_backend {
namespace {

namespace sg = simgrid::s4u;

/// The largest sum over `hops` consecutive edges of the ring: the latency of the chunk that is under way longest.
double worst_path(const std::vector<double>& latencies, int hops) {
  const int n = int(latencies.size());
  double worst = 0;
  if (n > 512) {  // one window after the other: 2 n^2 additions are too many
    for (int hop = 0; hop < hops; ++hop) worst += latencies[hop % n];
    double sum = worst;
    for (int start = 1; start < n; ++start) {
      sum += latencies[(start - 1 + hops) % n] - latencies[start - 1];
      worst = std::max(worst, sum);
    }
    return worst;
  }
  for (int start = 0; start < n; ++start) {
    double sum = 0;
    for (int hop = 0; hop < hops; ++hop) sum += latencies[(start + hop) % n];
    worst = std::max(worst, sum);
    if (std::equal(latencies.begin() + 1, latencies.end(), latencies.begin())) break;  // all the same: one start is enough
  }
  return worst;
}

/// How often each link is there, each once.
Sharing::Weights counted(const std::vector<const Link*>& links) {
  Sharing::Weights weights;
  std::unordered_map<const Link*, std::size_t> places;
  places.reserve(links.size());
  for (const Link* link : links) {
    const auto [place, is_new] = places.try_emplace(link, weights.size());
    if (is_new) weights.push_back({link, 0});
    ++weights[place->second].second;
  }
  return weights;
}

/// What each of these flows gets if all move at once: a link that several of them cross has that much less for each.
double share_of_worst_link(const Sharing::Weights& crossings) {
  double share = std::numeric_limits<double>::infinity();
  for (const auto& [link, times] : crossings) share = std::min(share, link->bandwidth / (link->is_shared ? times : 1));
  return share;
}

constexpr double nccl_base = 8.4e-6, nccl_network_hop = 14e-6;
double nccl_hop(const Platform& platform, int rank) { return platform.interconnects[rank] == "nvlink" ? 3.4e-6 : 5.7e-6; }

/// The constants of a ring with the protocol Simple: what `ring` pays, and what its n-1 hops say of the wiring.
void set_nccl_latencies(Ring& ring, const Platform& platform) {
  ring.base_latency = nccl_base;
  const int n = ring.group.size;
  std::set<std::string> nodes;
  double hop = 0;
  for (int member = 0; member < n; ++member) {
    const int rank = ring.group.rank(member);
    const std::string &node = platform.nodes[rank], &interconnect = platform.interconnects[rank];
    if (node.empty() || (interconnect != "nvlink" && interconnect != "pcie"))
      throw ScenarioError(
          platform.file +
          ": latency: nccl needs the properties 'node' and 'interconnect' (nvlink | pcie) of every GPU, and host '" +
          platform.name_of(rank) + "' lacks them; add them to the platform or choose latency: platform");
    nodes.insert(node);
    hop = nccl_hop(platform, rank);
    const bool inside = node == platform.nodes[ring.group.rank((member + 1) % n)];
    ring.latencies[member] = inside ? hop : nccl_network_hop;
  }
  const double pass = double(n - int(nodes.size())) * hop + double(nodes.size() - 1) * nccl_network_hop;
  ring.slowest_pass = pass;
  ring.slowest_two_passes = 2 * pass;
  ring.wiring.nodes = int(nodes.size());
}

/// The slowest member decides, as in NCCL.
void set_wiring(Ring& ring, const Platform& platform) {
  cost::Wiring& wiring = ring.wiring;
  wiring.ranks = ring.group.size;
  wiring.ring_bandwidth = ring.bandwidth;
  wiring.nvls = true;
  wiring.generation = cost::Generation::blackwell;
  for (int member = 0; member < wiring.ranks; ++member) {
    const int rank = ring.group.rank(member);
    const std::string &nvls = platform.nvls[rank], &generation = platform.generations[rank];
    auto refuse = [&](const char* key, const std::string& value, const char* known) {
      throw ScenarioError(platform.file + ": host '" + platform.name_of(rank) + "': " + key + ": unknown value '" + value +
                          "'; known values: " + known);
    };
    if (!nvls.empty() && nvls != "yes" && nvls != "no") refuse("nvls", nvls, "yes, no");
    const auto known = cost::generation_of(generation.empty() ? (nvls == "yes" ? "hopper" : "ampere") : generation);
    if (!known) refuse("generation", generation, "volta, ampere, hopper, blackwell");
    wiring.nvlink = wiring.nvlink && platform.interconnects[rank] == "nvlink";
    wiring.nvls = wiring.nvls && nvls == "yes";
    wiring.generation = std::min(wiring.generation, *known);
  }
}

}  // namespace

Ring make_ring(const Platform& platform, const Group& group, Latency latency) {
  Ring ring;
  ring.group = group;
  const int n = group.size;
  ring.edge_ends.resize(n);
  ring.latencies.resize(n);
  ring.edge_bytes.resize(n), ring.pair_bytes.resize(n);
  if (n == 1) return ring;
  for (int member = 0; member < n; ++member) {
    platform.route(group.rank(member), group.rank((member + 1) % n), ring.links, ring.latencies[member]);
    ring.edge_ends[member] = ring.links.size();
  }
  ring.crossings = counted(ring.links);
  ring.bandwidth = share_of_worst_link(ring.crossings);
  ring.slowest_pass = worst_path(ring.latencies, n - 1);
  ring.slowest_two_passes = worst_path(ring.latencies, 2 * (n - 1));
  if (latency == Latency::nccl) set_nccl_latencies(ring, platform), set_wiring(ring, platform);
  return ring;
}

void add_transfer_routes(Ring& ring, Platform& platform) {
  constexpr std::size_t part = most_edges_of_a_flow;
  for (std::size_t first = 0; ring.group.size > 1 && first < ring.edge_ends.size(); first += part) {
    std::vector<sg::LinkInRoute> links;
    for (std::size_t edge = first; edge < std::min(first + part, ring.edge_ends.size()); ++edge)
      for (const Link* link : ring.edge(int(edge))) links.emplace_back(link->of_simgrid);
    const auto [from, to] = platform.next_pair();
    from->get_englobing_zone()->add_bypass_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, links);
    ring.transfers.emplace_back(from, to);
  }
}

void find_pairs(Ring& ring, const Platform& platform, Latency latency) {
  const int n = ring.group.size;
  if (n == 1 || !ring.pairs.empty()) return;
  ring.pairs.resize(std::size_t(n) * std::size_t(n));
  std::vector<const Link*> links;
  for (int from = 0; from < n; ++from)
    for (int to = 0; to < n; ++to) {
      if (from == to) continue;
      const int sender = ring.group.rank(from), receiver = ring.group.rank(to);
      Pair& pair = ring.pair(from, to);
      platform.route(sender, receiver, pair.links, pair.latency);
      if (latency == Latency::nccl)
        pair.latency = platform.nodes[sender] == platform.nodes[receiver] ? nccl_hop(platform, sender) : nccl_network_hop;
      ring.slowest_pair = std::max(ring.slowest_pair, pair.latency);
      links.insert(links.end(), pair.links.begin(), pair.links.end());
    }
  ring.wiring.pairs_bandwidth = (n - 1) * share_of_worst_link(counted(links));
}

void add_pair_routes(Ring& ring, const Platform& platform, Sharing* sharing) {
  for (int from = 0; from < ring.group.size; ++from)
    for (int to = 0; to < ring.group.size; ++to) {
      if (from == to) continue;
      if (sharing) {
        Sharing::Weights weights;
        for (const Link* link : ring.pair(from, to).links) weights.push_back({link, 1});
        ring.pair_routes.push_back(sharing->route(weights));
      } else {
        ring.pair_ends.emplace_back(platform.hosts[ring.group.rank(from)], platform.hosts[ring.group.rank(to)]);
      }
    }
}

}  // namespace shardsim::simgrid_backend
