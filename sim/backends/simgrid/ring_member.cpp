// Ring member: one rank's part of a ring collective, as the loop it is: n-1 steps, each sends one chunk to the right and receives
// one from the left. The messages carry the numbers and are what is counted. An all-to-all's go to each other member at once.
#include <simgrid/s4u.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "backends/simgrid/fabric.h"
#include "core/formulas.h"
#include "numerics/ring.h"

namespace shardsim::simgrid_backend {
namespace {

namespace sg = simgrid::s4u;

using Message = std::vector<float>;

class RingMember {
 public:
  RingMember(Communicator& communicator, int member)
      : communicator_(communicator), ring_(communicator.ring()), n_(ring_.group.size), me_(member) {
    name_ = "ring." + std::to_string(ring_.group.first) + "." + std::to_string(ring_.group.stride) + "." + std::to_string(n_) +
            "." + name_of(communicator.lane()) + ".";
    right_ = sg::Mailbox::by_name(name_ + std::to_string((me_ + 1) % n_));
    left_ = sg::Mailbox::by_name(name_ + std::to_string(me_));
    left_->set_receiver(sg::Actor::self());  // eager: a message travels when it is sent, as a put into the neighbour's buffer
  }

  /// The head of the communicator's queue.
  void run() {
    Pending& pending = communicator_.head();
    pending_ = &pending;
    mine_ = pending.members.empty() ? nullptr : &pending.members[me_];
    if (ring_.base_latency > 0) sg::this_actor::sleep_for(ring_.base_latency);
    if (is_rooted(pending.verb)) return pass_on();
    if (pending.verb == Verb::all_to_all) return exchange_with_all();
    Message own;
    if (pending.verb == Verb::all_gather) {
      if (mine_) own = copied(numerics::all_of(mine_->from));
    } else {
      own = reduce();
    }
    if (pending.verb == Verb::reduce_scatter) {
      if (mine_) store(own, numerics::all_of(mine_->to)), numerics::poison_foreign_slices(*mine_);
    } else {
      spread(std::move(own));
    }
  }

 private:
  /// After step s this member holds the sum of chunk me-s-2 over the members from that chunk's successor to itself.
  Message reduce() {
    Message partial;
    if (mine_) partial = copied(chunk(-1));
    for (int step = 0; step < n_ - 1; ++step) {
      partial = exchange(std::move(partial), -step - 1);
      if (!mine_) continue;
      const numerics::Chunk own = chunk(-step - 2);
      numerics::check_agree(own.count, std::int64_t(partial.size()));
      numerics::add_hop(mine_->from.dtype(), own.at, partial.data(), own.count);
    }
    return partial;
  }

  /// Chunk c spreads from member c.
  void spread(Message message) {
    if (mine_) store(message, chunk(0));
    for (int step = 0; step < n_ - 1; ++step) {
      message = exchange(std::move(message), -step);
      if (mine_) store(message, chunk(-step - 1));
    }
  }

  /// A reduce or broadcast: piece after piece comes from the left and goes on to the right, the next one behind it.
  void pass_on() {
    const bool sums = pending_->verb == Verb::reduce;
    const int root = pending_->root, first = sums ? (root + 1) % n_ : root, last = sums ? root : (root + n_ - 1) % n_;
    const std::int64_t k = formulas::pieces(pending_->bytes);
    sg::CommPtr under_way;
    for (std::int64_t i = 0; i < k; ++i) {
      Message message;
      if (me_ != first) message = receive(left_->get_async(&received_));
      if (mine_ && (sums || me_ == root)) {
        const numerics::Chunk own = numerics::piece(mine_->from, i, k);
        if (me_ == first) message = copied(own);
        else
          numerics::check_agree(own.count, std::int64_t(message.size())),
              numerics::add_hop(mine_->from.dtype(), own.at, message.data(), own.count);
      }
      if (mine_ && (sums ? me_ == root : me_ != root)) store(message, numerics::piece(mine_->to, i, k));
      if (under_way) under_way->wait();
      under_way = {};
      const Dim all(pending_->count, 0);
      if (me_ != last) under_way = send(std::move(message), (all.share(int(i) + 1, int(k)) - all.share(int(i), int(k))).charged());
    }
    if (under_way) under_way->wait();
  }

  /// An all-to-all: a chunk to each of the others and one from each, all at once.
  void exchange_with_all() {
    std::vector<sg::CommPtr> puts, gets;
    std::vector<Message*> received(std::size_t(n_), nullptr);
    const auto mailbox = [this](int from, int to) {
      return sg::Mailbox::by_name(name_ + std::to_string(from) + ".to." + std::to_string(to));
    };
    const std::int64_t bytes = pending_->bytes / n_;
    for (int distance = 1; distance < n_; ++distance) {
      const int to = member(distance), from = member(-distance);
      Message message;
      if (mine_) message = copied(chunk(distance));
      puts.push_back(mailbox(me_, to)->put_async(new Message(std::move(message)), std::uint64_t(bytes)));
      gets.push_back(mailbox(from, me_)->get_async(&received[std::size_t(from)]));
      pending_->sent[me_] += bytes;
    }
    ring_.count(Verb::all_to_all, me_, double(bytes) * (n_ - 1));
    if (mine_) store(copied(chunk(0)), numerics::received_chunk(*mine_, me_));
    double last = 0;
    for (int distance = 1; distance < n_; ++distance) {
      const int from = member(-distance);
      const sg::CommPtr& got = gets[std::size_t(distance) - 1];
      got->wait();
      const std::unique_ptr<Message> message(received[std::size_t(from)]);
      last = std::max(last, got->get_finish_time() + ring_.pair(from, me_).latency);
      if (mine_) store(*message, numerics::received_chunk(*mine_, from));
    }
    for (const sg::CommPtr& put : puts) put->wait();
    sg::this_actor::sleep_until(last);
  }

  /// Sends the chunk of the member at this distance.
  Message exchange(Message message, int distance) {
    const sg::CommPtr put = send(std::move(message), formulas::chunk_elements(n_, member(distance), pending_->count));
    const sg::CommPtr got = left_->get_async(&received_);
    got->wait();
    put->wait();
    return receive(got);
  }

  sg::CommPtr send(Message message, std::int64_t elements) {
    const std::int64_t bytes = bytes_of(pending_->dtype) * elements;
    ring_.edge_bytes[me_] += double(bytes);
    pending_->sent[me_] += bytes;
    return right_->put_async(new Message(std::move(message)), std::uint64_t(bytes));
  }

  /// The wire took its bandwidth's time; the edge's latency is ours to pay, from the moment of arrival.
  Message receive(const sg::CommPtr& got) {
    got->wait();
    sg::this_actor::sleep_until(got->get_finish_time() + ring_.latencies[member(-1)]);
    const std::unique_ptr<Message> owner(std::exchange(received_, nullptr));
    return std::move(*owner);
  }

  int member(int distance) const { return ((me_ + distance) % n_ + n_) % n_; }
  numerics::Chunk chunk(int distance) const { return numerics::chunk(*mine_, member(distance)); }
  static Message copied(numerics::Chunk chunk) { return Message(chunk.at, chunk.at + chunk.count); }
  static void store(const Message& message, numerics::Chunk to) {
    numerics::store(message.data(), std::int64_t(message.size()), to);
  }

  Communicator& communicator_;
  Ring& ring_;
  int n_, me_;
  std::string name_;
  sg::Mailbox *left_, *right_;
  Pending* pending_ = nullptr;
  const Collective* mine_ = nullptr;
  Message* received_ = nullptr;
};

}  // namespace

void run_ring_member(Network& network, Communicator& communicator, int member, sg::SemaphorePtr start) {
  RingMember ring_member(communicator, member);
  for (;;) {
    start->acquire();
    if (network.world().failed()) return;
    try {
      ring_member.run();
      // Outside all actors: waking a rank from within one would let it run in the middle of this.
      network.world().later(sg::Engine::get_clock(), [&communicator, member] { communicator.end_member(member); });
    } catch (const std::exception&) {
      network.world().fail(std::current_exception());
    }
  }
}

}  // namespace shardsim::simgrid_backend
