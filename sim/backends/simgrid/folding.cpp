// Folding: colours, their refinement, and the rings that stand for all of theirs.
#include "backends/simgrid/folding.h"

#include <bit>
#include <functional>
#include <unordered_set>

#include "core/draw.h"
#include "core/error.h"
#include "cost/facts.h"

namespace shardsim::simgrid_backend {
namespace {

using shardsim::mixed;
std::uint64_t mixed(std::uint64_t a, double b) { return mixed(a, std::bit_cast<std::uint64_t>(b)); }

std::uint64_t colour_of(const Gpu& gpu) {
  std::uint64_t colour = std::hash<std::string>()(gpu.name + "|" + gpu.attention + "|" + gpu.stack);
  for (const cost::Fact& fact : cost::facts()) colour = mixed(colour, fact.get(gpu));
  return colour;
}

std::uint64_t colour_of(const Ring& ring) {
  std::uint64_t colour = std::uint64_t(ring.group.size);
  for (const double x : {ring.base_latency, ring.bandwidth, ring.slowest_pass, ring.slowest_two_passes, ring.slowest_pair,
                         ring.wiring.ring_bandwidth, ring.wiring.pairs_bandwidth})
    colour = mixed(colour, x);
  const cost::Wiring& wiring = ring.wiring;
  for (const int x : {wiring.ranks, wiring.nodes, int(wiring.nvlink), int(wiring.nvls), int(wiring.generation)})
    colour = mixed(colour, std::uint64_t(x));
  return colour;
}

std::size_t distinct(const std::vector<std::uint64_t>& colours) {
  return std::unordered_set<std::uint64_t>(colours.begin(), colours.end()).size();
}

}  // namespace

std::size_t Folding::position(const Group& group) const { return positions_.at({group.first, group.stride, group.size}); }
Ring& Folding::ring(const Group& group) { return groups_[groups_[position(group)].stands_in].ring; }

Folding::Folding(const Platform& platform, const Programs& programs, Latency latency, Sharing& sharing) {
  groups_of_.resize(programs.groups.size());
  for (std::size_t rank = 0; rank < programs.groups.size(); ++rank)
    for (const Programs::Use& use : programs.groups[rank]) {
      if (!positions_.contains({use.group.first, use.group.stride, use.group.size})) add(platform, use, latency);
      groups_of_[rank].push_back(position(use.group));
    }
  colour(platform, programs);
  std::unordered_map<Colour, int> first_rank;
  for (std::size_t rank = 0; rank < rank_colours_.size(); ++rank)
    first_.push_back(first_rank.try_emplace(rank_colours_[rank], int(rank)).first->second);
  std::unordered_map<Colour, std::size_t> first_group;
  for (std::size_t g = 0; g < groups_.size(); ++g)
    groups_[g].stands_in = first_group.try_emplace(group_colours_[g], g).first->second;
  for (std::size_t g = 0; g < groups_.size(); ++g)
    if (groups_[g].stands_in == g) seat(groups_[g]);
  share_links(sharing);
}

void Folding::add(const Platform& platform, const Programs::Use& use, Latency latency) {
  positions_[{use.group.first, use.group.stride, use.group.size}] = groups_.size();
  Ring& ring = groups_.emplace_back(Bound{make_ring(platform, use.group, latency)}).ring;
  add_flow(false, ring.crossings);
  if (use.in_pairs) find_pairs(ring, platform, latency);
  for (std::size_t pair = 0; pair < ring.pairs.size(); ++pair) {
    if (ring.pairs[pair].links.empty()) continue;  // a member and itself
    Sharing::Weights weights;
    for (const Link* link : ring.pairs[pair].links) weights.push_back({link, 1});
    add_flow(true, weights);
  }
}

/// Of the last group.
void Folding::add_flow(bool is_pair, const Sharing::Weights& weights) {
  Flow& flow = flows_.emplace_back(Flow{groups_.size() - 1, is_pair, {}});
  for (const auto& [link, times] : weights) {
    const auto [known, is_new] = link_positions_.try_emplace(link, links_.size());
    if (is_new) links_.push_back(link);
    flow.uses.push_back({known->second, times});
  }
}

/// Multisets are told apart by the sum of their members' mixed colours.
void Folding::colour(const Platform& platform, const Programs& programs) {
  std::unordered_map<const Gpu*, Colour> kinds;
  std::vector<Colour> ranks, groups, links;  // what each is by itself
  for (std::size_t rank = 0; rank < programs.of_rank.size(); ++rank) {
    const auto [kind, is_new] = kinds.try_emplace(platform.gpus[rank], 0);
    if (is_new) kind->second = colour_of(*platform.gpus[rank]);
    ranks.push_back(mixed(kind->second, programs.of_rank[rank]));
  }
  for (const Bound& bound : groups_) groups.push_back(colour_of(bound.ring));
  for (const Link* link : links_) links.push_back(mixed(std::uint64_t(link->is_shared), link->bandwidth));
  rank_colours_ = ranks, group_colours_ = groups, link_colours_ = links;
  flow_colours_.resize(flows_.size());
  for (std::size_t told_apart = 0;;) {
    std::vector<Colour> sums(groups_.size(), 0);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      for (std::size_t role = 0; role < groups_of_[rank].size(); ++role)
        sums[groups_of_[rank][role]] += mixed(rank_colours_[rank], std::uint64_t(role));
    std::vector<Colour> crossings(groups_.size(), 0), crossed(links_.size(), 0);
    for (std::size_t f = 0; f < flows_.size(); ++f) {
      Colour sum = 0;
      for (const Use& use : flows_[f].uses) sum += mixed(link_colours_[use.link], use.crossings);
      flow_colours_[f] = mixed(sum, std::uint64_t(flows_[f].is_pair));
      crossings[flows_[f].group] += flow_colours_[f];
    }
    for (std::size_t g = 0; g < groups_.size(); ++g) group_colours_[g] = mixed(mixed(groups[g], sums[g]), crossings[g]);
    for (std::size_t f = 0; f < flows_.size(); ++f) {
      flow_colours_[f] = mixed(group_colours_[flows_[f].group], flow_colours_[f]);
      for (const Use& use : flows_[f].uses) crossed[use.link] += mixed(flow_colours_[f], use.crossings);
    }
    for (std::size_t link = 0; link < links.size(); ++link) link_colours_[link] = mixed(links[link], crossed[link]);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      rank_colours_[rank] = ranks[rank];
      for (const std::size_t g : groups_of_[rank]) rank_colours_[rank] = mixed(rank_colours_[rank], group_colours_[g]);
    }
    const std::size_t now = distinct(rank_colours_) + distinct(group_colours_) + distinct(link_colours_);
    if (now == told_apart) return;
    told_apart = now;
  }
}

/// Who takes part for all members of all groups of this colour.
void Folding::seat(Bound& bound) {
  Ring& ring = bound.ring;
  for (int member = 0; member < ring.group.size; ++member) ring.seats.push_back(first_[std::size_t(ring.group.rank(member))]);
  std::sort(ring.seats.begin(), ring.seats.end());
  ring.seats.erase(std::unique(ring.seats.begin(), ring.seats.end()), ring.seats.end());
  ring.edge_bytes.assign(ring.seats.size(), 0), ring.pair_bytes = ring.edge_bytes;
  for (const int rank : ring.seats) {
    int found = 0;
    for (const std::size_t g : groups_of_[std::size_t(rank)]) {
      if (groups_[g].stands_in != bound.stands_in) continue;
      Group own = groups_[g].ring.group;
      own.me = (rank - own.first) / own.stride;
      ring.seat_groups.push_back(own);
      ++found;
    }
    if (found != 1)
      throw ScenarioError("ranks: folded: rank " + std::to_string(rank) +
                          " is in two groups that cannot be told apart, which folding cannot follow; use ranks: all");
  }
}

void Folding::share_links(Sharing& sharing) {
  std::unordered_map<Colour, std::size_t> first_link;
  for (std::size_t link = 0; link < links_.size(); ++link) first_link.try_emplace(link_colours_[link], link);
  std::unordered_map<Colour, std::size_t> first_flow;
  std::map<std::size_t, Sharing::Weights> weights;  // of the first flow of each colour: of all of its colour
  for (std::size_t f = 0; f < flows_.size(); ++f) {
    Sharing::Weights& of_all = weights[first_flow.try_emplace(flow_colours_[f], f).first->second];
    for (const Use& use : flows_[f].uses)
      if (first_link.at(link_colours_[use.link]) == use.link) of_all.push_back({links_[use.link], use.crossings});
  }
  for (const auto& [f, of_all] : weights) {
    Ring& ring = groups_[groups_[flows_[f].group].stands_in].ring;
    if (flows_[f].is_pair) ring.pair_routes.push_back(sharing.route(of_all));
    else ring.route = sharing.route(of_all);
  }
}

LinkBytes Folding::link_bytes(const Platform& platform) const {
  std::vector<double> crossed(links_.size(), 0);
  for (const Bound& bound : groups_) {
    const Ring& of_all = groups_[bound.stands_in].ring;
    for (int member = 0; member < bound.ring.group.size; ++member) {
      const int seat = of_all.seat_of(first_[std::size_t(bound.ring.group.rank(member))]);
      for (const Link* link : bound.ring.edge(member)) crossed[link_positions_.at(link)] += of_all.edge_bytes[std::size_t(seat)];
      for (int to = 0; to < bound.ring.group.size && !bound.ring.pairs.empty(); ++to)
        for (const Link* link : bound.ring.pair(member, to).links)
          crossed[link_positions_.at(link)] += of_all.pair_bytes[std::size_t(seat)];
    }
  }
  std::vector<std::pair<const Link*, double>> bytes;
  for (std::size_t link = 0; link < links_.size(); ++link) bytes.emplace_back(links_[link], crossed[link]);
  return by_name(platform, bytes);
}

}  // namespace shardsim::simgrid_backend
