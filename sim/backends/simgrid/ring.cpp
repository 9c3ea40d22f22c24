// Ring: routes, latencies, and the virtual routes of coupled transfers.
#include "backends/simgrid/ring.h"

#include <simgrid/s4u.hpp>

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"

namespace shardsim::simgrid_backend {
namespace {

namespace sg = simgrid::s4u;

/// The largest sum over `hops` consecutive edges of the ring: the latency of the chunk that is under way longest.
double worst_path(const std::vector<double>& latencies, int hops) {
  const int n = int(latencies.size());
  double worst = 0;
  for (int start = 0; start < n; ++start) {
    double sum = 0;
    for (int hop = 0; hop < hops; ++hop) sum += latencies[(start + hop) % n];
    worst = std::max(worst, sum);
    if (std::equal(latencies.begin() + 1, latencies.end(), latencies.begin())) break;  // all the same: one start is enough
  }
  return worst;
}

/// The constants of a ring with the protocol Simple: what `ring` pays, and what its n-1 hops say of the wiring.
void set_nccl_latencies(Ring& ring, const Platform& platform) {
  ring.base_latency = 8.4e-6;
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
          platform.hosts[rank]->get_name() + "' lacks them; add them to the platform or choose latency: platform");
    nodes.insert(node);
    hop = interconnect == "nvlink" ? 3.4e-6 : 5.7e-6;
    const bool inside = node == platform.nodes[ring.group.rank((member + 1) % n)];
    ring.latencies[member] = inside ? hop : 14e-6;
  }
  const double pass = double(n - int(nodes.size())) * hop + double(nodes.size() - 1) * 14e-6;
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
      throw ScenarioError(platform.file + ": host '" + platform.hosts[rank]->get_name() + "': " + key + ": unknown value '" +
                          value + "'; known values: " + known);
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
  ring.edges.resize(n);
  ring.latencies.resize(n);
  ring.edge_bytes.resize(n);
  if (n == 1) return ring;
  std::map<const sg::Link*, int> crossings;
  for (int member = 0; member < n; ++member) {
    const sg::Host* from = platform.hosts[group.rank(member)];
    const sg::Host* to = platform.hosts[group.rank((member + 1) % n)];
    try {
      from->route_to(to, ring.edges[member], &ring.latencies[member]);
    } catch (const std::exception&) {  // SimGrid's way of saying that there is no route between two zones
      ring.edges[member].clear();
    }
    if (ring.edges[member].empty())
      throw ScenarioError(platform.file + ": no links between '" + from->get_name() + "' and '" + to->get_name() +
                          "'; add a route");
    for (const sg::Link* link : ring.edges[member]) ++crossings[link];
  }
  // All edges move at once, so a link that several of them cross has that much less for each.
  ring.bandwidth = std::numeric_limits<double>::infinity();
  for (const auto& [link, times] : crossings) {
    const bool shared = link->get_sharing_policy() != sg::Link::SharingPolicy::FATPIPE;
    ring.bandwidth = std::min(ring.bandwidth, link->get_bandwidth() / (shared ? times : 1));
  }
  ring.slowest_pass = worst_path(ring.latencies, n - 1);
  ring.slowest_two_passes = worst_path(ring.latencies, 2 * (n - 1));
  if (latency == Latency::nccl) set_nccl_latencies(ring, platform), set_wiring(ring, platform);
  return ring;
}

void add_transfer_routes(Ring& ring, Platform& platform) {
  // SimGrid's cost of one flow grows with the square of its links: above 64 edges the ring is cut into flows of 64.
  constexpr std::size_t part = 64;
  for (std::size_t first = 0; ring.group.size > 1 && first < ring.edges.size(); first += part) {
    std::vector<sg::LinkInRoute> links;
    for (std::size_t edge = first; edge < std::min(first + part, ring.edges.size()); ++edge)
      for (const sg::Link* link : ring.edges[edge]) links.emplace_back(link);
    const auto [from, to] = platform.next_pair();
    from->get_englobing_zone()->add_bypass_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, links);
    ring.transfers.emplace_back(from, to);
  }
}

}  // namespace shardsim::simgrid_backend
