// SimFabric: the collectives of the simulated ranks. A communicator (group, lane) is an in-order queue; when all members stand at
// its head, the collective becomes time in one of three fidelities, and its numbers move in the ring's order in all of them.
//
//   ring      real messages, chunk by chunk, one actor per (rank, communicator); they carry the numbers: the oracle
//   coupled   the path's latency, then one transfer over every link of the ring: SimGrid shares the links, max-min. Where another
//             bandwidth than the ring's is known, the transfer is that much shorter or longer; the counted bytes stay the true ones
//   formula   the closed form on the ring's slowest edge; nobody else is on the links
//
// An all-to-all goes round no ring: each member sends each other a message of its own, all at once; a transfer per pair in coupled,
// and in the closed form the link that has the most to carry for its bandwidth decides.
//
// A data collective takes its share of its members' compute lanes (pace.h): with c of the GPU's `contention` and x bytes sent,
// c x / memory_bandwidth seconds, spread evenly over the time of the transfer on idle links, from its start on. The share goes with
// the bytes: where links are shared and the transfer lasts longer, it takes no more.
#pragma once
#include <simgrid/s4u/Comm.hpp>
#include <simgrid/s4u/Semaphore.hpp>

#include <deque>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "backends/simgrid/device.h"
#include "backends/simgrid/fidelity.h"
#include "backends/simgrid/folding.h"
#include "backends/simgrid/ring.h"
#include "backends/simgrid/tape.h"
#include "core/fabric.h"

namespace shardsim::simgrid_backend {

class Network;

/// A collective on its way.
struct Pending {
  Verb verb = Verb::all_reduce;
  Payload payload = Payload::data;
  Label label;
  int root = 0;
  std::int64_t bytes = 0;  ///< of the whole buffer
  std::int64_t count = 0;  ///< its elements
  Dtype dtype = Dtype::fp32;
  std::vector<Collective> members;  ///< in member order; with numerics only
  std::vector<Stream*> streams;     ///< by seat, of which every member has one unless ranks are folded; null until arrived
  std::vector<double> arrived_at;
  std::vector<std::int64_t> sent;  ///< by each seat: counted from its messages (ring), or the closed form
  int arrived = 0, left = 0;
  double ready = 0;  ///< when the last member arrived
};

class Communicator {
 public:
  Communicator(Network& network, Ring& ring, Lane lane);
  /// The actors of fidelity `ring`.
  void create_ring_members();
  /// A member issues its next collective.
  void issue(const Collective&, bool numerics);
  /// The member's stream has got to its next collective here.
  void arrive(Stream&, double date);

  Ring& ring() { return ring_; }
  Lane lane() const { return lane_; }
  Pending& head() { return queue_.front(); }
  /// One transfer of the head's is over.
  void end_transfer();
  /// A ring actor has done its member's part.
  void end_member(int member);

 private:
  void start_if_ready();
  void begin_traffic(double seconds);
  void start_transfers();
  Pending take_head();
  void end(double date);
  void leave(Pending&, int seat, double date);

  Network& network_;
  Ring& ring_;
  Lane lane_;
  std::deque<Pending> queue_;
  std::uint64_t finished_ = 0;
  std::vector<std::uint64_t> issued_, arrivals_;  // of each seat
  bool busy_ = false;
  cost::CollectivePrice price_;  // of the head, once it has started
  std::size_t transfers_left_ = 0;
  std::vector<simgrid::s4u::CommPtr> transfers_;         // kept one round longer: SimGrid still uses them in their callbacks
  std::vector<simgrid::s4u::SemaphorePtr> ring_starts_;  // wake the ring actors
};

/// What the fabrics of all ranks share.
class Network {
 public:
  Network(World& world, Platform& platform, const SimgridSettings& settings);
  Communicator& communicator(const Group&, Lane);
  World& world() { return world_; }
  Fidelity fidelity() const { return settings_.fidelity; }
  /// What an all-to-all needs to know; once.
  void add_pairs(Ring& ring);
  /// Our own solver, if it is in use.
  Sharing* sharing() { return sharing_ ? &*sharing_ : nullptr; }
  /// Null: every rank is simulated.
  const Folding* folding() const { return folding_ ? &*folding_ : nullptr; }
  /// What a collective over the ring costs; throws ScenarioError if the rules ask for what cannot run there.
  cost::CollectivePrice price(const Ring&, Verb, std::int64_t bytes) const;
  /// Whether collectives slow compute down on any GPU.
  bool contends() const { return contends_; }
  const Platform& platform() const { return platform_; }
  void watch(const simgrid::s4u::Activity* transfer, Communicator* who) { watched_[transfer] = who; }
  /// Keeps the price of a collective that rank 0 takes part in, with its formula, for whoever asked for it.
  void note(const Ring&, const Pending&, const cost::CollectivePrice&) const;
  /// Bytes that crossed each link, by name.
  LinkBytes link_bytes() const;

 private:
  Ring& ring(const Group&);
  World& world_;
  Platform& platform_;
  const SimgridSettings& settings_;
  bool contends_ = false;
  std::optional<Sharing> sharing_;
  std::optional<Folding> folding_;
  std::map<std::tuple<int, int, int>, std::unique_ptr<Ring>> rings_;
  std::map<std::tuple<int, int, int, Lane>, std::unique_ptr<Communicator>> communicators_;
  std::unordered_map<const simgrid::s4u::Activity*, Communicator*> watched_;
};

class SimFabric final : public Fabric {
 public:
  SimFabric(SimDevice& device, Network& network) : Fabric(device, network.world().order), device_(device), network_(network) {}
  /// Enqueues what is on the tape, on the device and here, as the rank that has these groups.
  void play(const Tape&, const std::vector<Programs::Use>& groups, int step);

 private:
  void enqueue(const Collective&) override;
  SimDevice& device_;
  Network& network_;
};

/// The body of a ring actor: for ever, the member's part of the communicator's collectives.
void run_ring_member(Network&, Communicator&, int member, simgrid::s4u::SemaphorePtr start);

}  // namespace shardsim::simgrid_backend
