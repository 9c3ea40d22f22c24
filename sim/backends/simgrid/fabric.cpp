// SimFabric: communicators, and what a collective costs in each fidelity.
#include "backends/simgrid/fabric.h"

#include <simgrid/s4u.hpp>

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "core/error.h"
#include "core/formulas.h"
#include "numerics/ring.h"

namespace shardsim::simgrid_backend {

namespace sg = simgrid::s4u;

// ---- Network

Network::Network(World& world, Platform& platform, const SimgridSettings& settings)
    : world_(world), platform_(platform), settings_(settings) {
  for (const Gpu& gpu : platform.kinds) contends_ = contends_ || gpu.contention > 0;
  const bool is_large = platform.hosts.size() > most_edges_of_a_flow;
  const bool needs_simgrid = settings.meters_links || !settings.tracing.empty();  // which see SimGrid's own transfers only
  if (platform.cluster || settings.shares_links.value_or(settings.programs || (is_large && !needs_simgrid)))
    sharing_.emplace(world);
  if (settings.programs) folding_.emplace(platform, *settings.programs, settings.latency, *sharing_);
  sg::Activity::on_completion_cb([this](const sg::Activity& activity) {
    const auto found = watched_.find(&activity);
    if (found == watched_.end()) return;
    Communicator* communicator = found->second;
    watched_.erase(found);
    // SimGrid is still inside the activity's completion: what follows starts behind it.
    world_.later(sg::Engine::get_clock(), [communicator] { communicator->end_transfer(); });
  });
}

Ring& Network::ring(const Group& group) {
  if (folding_) return folding_->ring(group);
  auto& ring = rings_[{group.first, group.stride, group.size}];
  if (!ring) {
    ring = std::make_unique<Ring>(make_ring(platform_, group, settings_.latency));
    if (sharing_) ring->route = sharing_->route(ring->crossings);
    else if (fidelity() == Fidelity::coupled) add_transfer_routes(*ring, platform_);
  }
  return *ring;
}

void Network::add_pairs(Ring& ring) {
  if (folding_ || !ring.pairs.empty()) return;
  find_pairs(ring, platform_, settings_.latency);
  add_pair_routes(ring, platform_, sharing());
}

Communicator& Network::communicator(const Group& group, Lane lane) {
  Ring& there = ring(group);
  auto& communicator = communicators_[{there.group.first, there.group.stride, there.group.size, lane}];
  if (!communicator) {
    // In this order: creating an actor lets other ranks run, and they have to find the communicator.
    communicator = std::make_unique<Communicator>(*this, there, lane);
    communicator->create_ring_members();
  }
  return *communicator;
}

cost::CollectivePrice Network::price(const Ring& ring, Verb verb, std::int64_t bytes) const {
  if (settings_.latency == Latency::platform || fidelity() == Fidelity::ring) {
    const double filling = is_rooted(verb) ? formulas::filling_bytes(ring.group.size, bytes) / ring.bandwidth : 0;
    const cost::Algorithm algorithm = verb == Verb::all_to_all ? cost::Algorithm::pairs : cost::Algorithm::ring;
    return cost::overridden({algorithm, cost::Protocol::simple, ring.latency(verb) + filling, ring.bandwidth_of(verb)}, verb,
                            settings_.collectives);
  }
  try {
    return cost::price(ring.wiring, verb, double(bytes), settings_.collectives);
  } catch (const std::invalid_argument& error) {
    throw ScenarioError(platform_.file + ": collectives: " + error.what());
  }
}

static bool is_member(const Group& group, int rank) {
  const int beyond = rank - group.first;
  return beyond >= 0 && beyond % group.stride == 0 && beyond / group.stride < group.size;
}

void Network::note(const Ring& ring, const Pending& pending, const cost::CollectivePrice& price) const {
  if (!settings_.notes || !is_member(ring.group, settings_.noted_rank)) return;
  const Gpu& gpu = *platform_.gpus[settings_.noted_rank];
  const double bytes = double(pending.bytes), sent = formulas::sent_bytes(pending.verb, ring.group.size, bytes);
  const char* origin = settings_.latency == Latency::nccl ? "NCCL" : "platform";
  std::string words = cost::in_words(price, pending.verb, ring.group.size, bytes, settings_.collectives, origin);
  if (gpu.contention > 0 && pending.payload == Payload::data) {
    char taken[128];
    std::snprintf(taken, sizeof taken, "; takes %.4g x %.6g B / %.4g B/s = %.4g us of compute that it overlaps", gpu.contention,
                  sent, gpu.memory_bandwidth, gpu.contention * sent / gpu.memory_bandwidth * 1e6);
    words += taken;
  }
  settings_.notes->add(pending.label.verb, name_of(pending.verb), words, price.seconds(pending.verb, ring.group.size, bytes));
}

LinkBytes Network::link_bytes() const {
  if (folding_) return folding_->link_bytes(platform_);
  std::unordered_map<const Link*, double> bytes;
  for (const auto& [key, ring] : rings_) {
    for (int member = 0; member < ring->group.size; ++member) {
      for (const Link* link : ring->edge(member)) bytes[link] += ring->edge_bytes[std::size_t(member)];
      for (int to = 0; to < ring->group.size && !ring->pairs.empty(); ++to)
        for (const Link* link : ring->pair(member, to).links) bytes[link] += ring->pair_bytes[std::size_t(member)];
    }
  }
  return by_name(platform_, bytes);
}

// ---- Communicator

Communicator::Communicator(Network& network, Ring& ring, Lane lane)
    : network_(network), ring_(ring), lane_(lane), issued_(ring.present()), arrivals_(ring.present()) {}

void Communicator::create_ring_members() {
  if (network_.fidelity() != Fidelity::ring || ring_.group.size == 1) return;
  for (int member = 0; member < ring_.group.size; ++member) {
    ring_starts_.push_back(sg::Semaphore::create(0));
    sg::Actor::create("ring", network_.platform().hosts[ring_.group.rank(member)], [this, member, start = ring_starts_.back()] {
      run_ring_member(network_, *this, member, start);
    })->daemonize();
  }
}

void Communicator::issue(const Collective& collective, bool numerics) {
  const int n = ring_.present(), me = ring_.seat_of(collective.group.rank(collective.group.me));
  if (collective.verb == Verb::all_to_all) network_.add_pairs(ring_);
  const std::uint64_t sequence = issued_[me]++;
  while (finished_ + queue_.size() <= sequence) {
    Pending& pending = queue_.emplace_back();
    pending.verb = collective.verb;
    pending.payload = collective.payload;
    pending.label = collective.label;
    pending.root = collective.root;
    pending.bytes = collective.bytes();
    pending.count = collective.whole().count().charged();
    pending.dtype = collective.whole().dtype();
    pending.streams.resize(n);
    pending.arrived_at.resize(n);
    pending.sent.resize(n);
    if (numerics) pending.members.resize(n);
  }
  Pending& pending = queue_[sequence - finished_];
  if (numerics) pending.members[me] = collective;
  // The ring counts its messages one by one.
  if (network_.fidelity() != Fidelity::ring) pending.sent[me] = collective.sent_bytes();
}

void Communicator::arrive(Stream& stream, double date) {
  const int me = ring_.seat_of(stream.device().rank());
  Pending& pending = queue_[arrivals_[me]++ - finished_];
  pending.streams[me] = &stream;
  pending.arrived_at[me] = date;
  pending.ready = std::max(pending.ready, date);
  ++pending.arrived;
  start_if_ready();
}

void Communicator::start_if_ready() {
  if (busy_ || queue_.empty() || queue_.front().arrived < ring_.present()) return;
  busy_ = true;
  Pending& pending = queue_.front();
  const double start = std::max(pending.ready, sg::Engine::get_clock());
  World& world = network_.world();
  if (ring_.group.size == 1) {
    world.later(start, [this, start] { end(start); });
    return;
  }
  price_ = network_.price(ring_, pending.verb, pending.bytes);
  network_.note(ring_, pending, price_);
  const double sent = formulas::sent_bytes(pending.verb, ring_.group.size, double(pending.bytes));
  const double from = start + price_.latency, date = from + sent / price_.bus_bandwidth;
  if (network_.fidelity() == Fidelity::ring) {
    pending.left = ring_.group.size;
    world.later(start, [this, seconds = date - start] {
      begin_traffic(seconds);  // its latencies lie between its messages
      for (const auto& ring_start : ring_starts_) ring_start->release();
    });
  } else if (network_.fidelity() == Fidelity::coupled) {
    world.later(from, [this] { start_transfers(); });
  } else if (network_.contends()) {
    world.later(from, [this, date, seconds = date - from] {
      begin_traffic(seconds);
      network_.world().later(date, [this, date] { end(date); });
    });
  } else {
    world.later(date, [this, date] { end(date); });
  }
}

void Communicator::begin_traffic(double seconds) {
  if (!network_.contends() || head().payload == Payload::control || !(seconds > 0)) return;
  const double sent = formulas::sent_bytes(head().verb, ring_.group.size, double(head().bytes));
  for (Stream* stream : head().streams) stream->device().begin_traffic(sg::Engine::get_clock(), seconds, sent);
}

void Communicator::start_transfers() {
  const Verb verb = head().verb;
  const auto bytes = std::uint64_t(formulas::sent_bytes(verb, ring_.group.size, double(head().bytes)));
  if (bytes == 0) return end(sg::Engine::get_clock());
  begin_traffic(double(bytes) / price_.bus_bandwidth);
  const bool in_pairs = verb == Verb::all_to_all;  // each with its part of what a member sends
  const double by_each = double(bytes) / (in_pairs ? ring_.group.size - 1 : 1);
  const auto carried = std::uint64_t(by_each * (ring_.bandwidth_of(verb) / price_.bus_bandwidth) + 0.5);
  if (Sharing* sharing = network_.sharing()) {
    transfers_left_ = in_pairs ? ring_.pair_routes.size() : 1;
    if (!in_pairs) return sharing->start(ring_.route, double(std::max<std::uint64_t>(carried, 1)), *this);
    for (const Sharing::Route& route : ring_.pair_routes) sharing->start(route, double(std::max<std::uint64_t>(carried, 1)), *this);
    return;
  }
  const Ring::Ends& transfers = in_pairs ? ring_.pair_ends : ring_.transfers;
  transfers_left_ = transfers.size();
  std::vector<sg::CommPtr> started;
  for (const auto& [from, to] : transfers) {
    sg::CommPtr transfer = sg::Comm::sendto_init(from, to);
    transfer->set_payload_size(std::max<std::uint64_t>(carried, 1));
    network_.watch(transfer.get(), this);
    transfer->start();
    started.push_back(transfer);
  }
  transfers_ = std::move(started);
}

void Communicator::end_transfer() {
  if (--transfers_left_ == 0) end(sg::Engine::get_clock());
}

void Communicator::leave(Pending& pending, int seat, double date) {
  const std::int64_t sent = pending.sent[seat];
  Stream& stream = *pending.streams[seat];
  if (network_.fidelity() != Fidelity::ring) ring_.count(pending.verb, seat, double(sent));
  stream.device().record_span({pending.arrived_at[seat], date, sent, pending.bytes, pending.label.unit, lane_, pending.label.verb,
                               Span::collective, pending.payload == Payload::control, pending.verb, pending.dtype,
                               price_.algorithm == cost::Algorithm::tree, ring_.group_of(seat),
                               stream.head().from - stream.head().call, stream.head().from});
  stream.end_collective(date);
}

Pending Communicator::take_head() {
  Pending pending = std::move(queue_.front());
  queue_.pop_front();
  ++finished_;
  busy_ = false;
  return pending;
}

void Communicator::end(double date) {
  Pending pending = take_head();
  if (!pending.members.empty()) numerics::move_in_ring_order(pending.members);
  for (int seat = 0; seat < ring_.present(); ++seat) {
    fetch_ahead(std::size_t(seat), pending.streams.size(), [&pending](std::size_t other) { return pending.streams[other]; });
    leave(pending, seat, date);
  }
  start_if_ready();
}

void Communicator::end_member(int member) {
  const double date = sg::Engine::get_clock();
  if (--head().left > 0) return leave(head(), member, date);
  Pending pending = take_head();
  leave(pending, member, date);
  start_if_ready();
}

// ---- SimFabric

void SimFabric::enqueue(const Collective& collective) {
  Communicator& communicator = network_.communicator(collective.group, collective.lane);
  communicator.issue(collective, device_.has_numerics());
  device_.enqueue_collective(collective.lane, communicator);
}

}  // namespace shardsim::simgrid_backend
