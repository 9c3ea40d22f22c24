// Folding: ranks that do the same on the same hardware are simulated once and counted as often as there are. Exactly:
//
// Ranks, groups, flows and links are coloured, and colours are refined until nothing changes. A rank has the colour of its
// hardware, its program and its groups; a group that of its ring, its members and its flows: one all around the ring, and one of
// each pair if it has all-to-alls; a flow that of its group and of its links; a link that of its capacity and of the flows that
// cross it, each as often as it does. Then all of a colour go through the same at the same time: who waits for whom is told by
// colours, and so is a max-min share, so that links that are equally full stay so (the partition is equitable). A straggler or a
// slow link has a colour of its own, and so have those that can tell it from others; all else stays together.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "backends/simgrid/backend.h"
#include "backends/simgrid/platform.h"
#include "backends/simgrid/ring.h"

namespace shardsim::simgrid_backend {

class Folding {
 public:
  /// Throws ScenarioError if a rank has two groups that cannot be told apart.
  Folding(const Platform&, const Programs&, Latency, Sharing&);

  /// The first rank of the class that the rank is in: the one that is simulated.
  int representative(int rank) const { return first_[std::size_t(rank)]; }
  /// The ring that stands for all groups of the group's colour: a transfer over it takes of each link what all of them take.
  Ring& ring(const Group&);
  /// Bytes that crossed each link, by name.
  LinkBytes link_bytes(const Platform&) const;

 private:
  using Colour = std::uint64_t;
  struct Use {
    std::size_t link;
    double crossings;
  };
  struct Flow {
    std::size_t group;
    bool is_pair;
    std::vector<Use> uses;
  };
  struct Bound {
    Ring ring;
    std::size_t stands_in = 0;  // position of the first group of its colour
  };
  std::size_t position(const Group&) const;
  void add(const Platform&, const Programs::Use&, Latency);
  void add_flow(bool is_pair, const Sharing::Weights&);
  void colour(const Platform&, const Programs&);
  void seat(Bound&);
  void share_links(Sharing&);

  std::vector<Bound> groups_;
  std::vector<Flow> flows_;
  std::map<std::tuple<int, int, int>, std::size_t> positions_;
  std::vector<std::vector<std::size_t>> groups_of_;  // of each rank, by their first use
  std::vector<const Link*> links_;
  std::unordered_map<const Link*, std::size_t> link_positions_;
  std::vector<Colour> rank_colours_, group_colours_, flow_colours_, link_colours_;
  std::vector<int> first_;
};

}  // namespace shardsim::simgrid_backend
