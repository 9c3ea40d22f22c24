// Ring: the links and latencies of a group's ring, and of the pairs of its members, read from the platform.
#pragma once
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "backends/simgrid/backend.h"
#include "backends/simgrid/platform.h"
#include "backends/simgrid/sharing.h"
#include "core/mesh.h"
#include "cost/collective.h"

namespace shardsim::simgrid_backend {

/// Two of a group's members, and what one sends to the other by itself.
struct Pair {
  std::vector<const Link*> links;
  double latency = 0;  ///< seconds
};

/// The ring of a group: its edges' links, and the latency of its paths. Shared by the group's communicators.
struct Ring {
  Group group;
  std::vector<const Link*> links;                   ///< of all edges, one behind the other
  std::vector<std::size_t> edge_ends;               ///< behind the last link of the edge from member m to member m+1
  Sharing::Weights crossings;                       ///< how often the ring crosses each of its links, each link once
  std::vector<double> latencies;                    ///< of each edge, seconds
  double base_latency = 0;                          ///< paid once per collective
  double bandwidth = 0;                             ///< of the slowest edge, bytes per second; links listed twice count twice
  double slowest_pass = 0, slowest_two_passes = 0;  ///< latency of the worst path of n-1 and of 2(n-1) edges
  cost::Wiring wiring;                              ///< of the group, for NCCL's prices
  using Ends = std::vector<std::pair<simgrid::s4u::Host*, simgrid::s4u::Host*>>;
  Ends transfers;                  ///< coupled: a pair of ends per part of the ring
  Sharing::Route route;            ///< or the way of a transfer that our own solver follows
  std::vector<double> edge_bytes;  ///< what each seat's member has sent over its edge
  std::vector<double> pair_bytes;  ///< and over each of its pairs

  // Folded: the ranks that stand for all members, in order, and the group of each. Empty: every member for itself.
  std::vector<int> seats;
  std::vector<Group> seat_groups;

  // From the first all-to-all on.
  std::vector<Pair> pairs;                  ///< [from n + to]
  Ends pair_ends;                           ///< of all pairs of two
  std::vector<Sharing::Route> pair_routes;  ///< or for our own solver; of folded ranks one for all pairs of a colour
  double slowest_pair = 0;                  ///< latency

  double latency(Verb verb) const {
    return base_latency + (verb == Verb::all_to_all ? slowest_pair : verb == Verb::all_reduce ? slowest_two_passes : slowest_pass);
  }
  /// At which a member sends, if nobody else is on the links.
  double bandwidth_of(Verb verb) const { return verb == Verb::all_to_all ? wiring.pairs_bandwidth : bandwidth; }
  std::span<const Link* const> edge(int member) const {
    const std::size_t m = std::size_t(member), begin = m == 0 ? 0 : edge_ends[m - 1];
    return {links.data() + begin, edge_ends[m] - begin};
  }
  int present() const { return seats.empty() ? group.size : int(seats.size()); }
  int seat_of(int rank) const {
    if (seats.empty()) return (rank - group.first) / group.stride;
    return int(std::lower_bound(seats.begin(), seats.end(), rank) - seats.begin());
  }
  Group group_of(int seat) const {
    return seats.empty() ? Group{group.first, group.stride, group.size, seat} : seat_groups[std::size_t(seat)];
  }
  Pair& pair(int from, int to) { return pairs[std::size_t(from * group.size + to)]; }
  const Pair& pair(int from, int to) const { return pairs[std::size_t(from * group.size + to)]; }
  /// What the member of a seat has sent of a collective.
  void count(Verb verb, int seat, double bytes) {
    if (verb == Verb::all_to_all) pair_bytes[std::size_t(seat)] += bytes / (group.size - 1);
    else edge_bytes[std::size_t(seat)] += bytes;
  }
};

/// SimGrid's cost of one flow grows with the square of its links: longer rings are cut into flows of so many edges, and machines
/// that have such rings are left to our own solver (sharing.h) where nobody asks for SimGrid's.
inline constexpr std::size_t most_edges_of_a_flow = 64;

/// Looks up the routes between neighbours. Throws ScenarioError when two members have no route, or when `nccl` latencies are asked
/// for and the platform does not say which node a GPU is in.
Ring make_ring(const Platform&, const Group&, Latency);
/// Gives every part of the ring (at most most_edges_of_a_flow edges) a pair of ends whose route is all of the part's links: a
/// coupled transfer.
void add_transfer_routes(Ring&, Platform&);
/// Looks up the routes between all members, once.
void find_pairs(Ring&, const Platform&, Latency);
/// The transfers of all pairs: for our own solver, if there is one.
void add_pair_routes(Ring&, const Platform&, Sharing*);

}  // namespace shardsim::simgrid_backend
