// Ring member: one rank's part of a ring collective, as the loop it is: n-1 steps, each sends one chunk to the right and receives
// one from the left. The messages carry the numbers and are what is counted.
#include <simgrid/s4u.hpp>

#include <memory>
#include <string>

#include "backends/simgrid/fabric.h"
#include "numerics/ring.h"

namespace shardsim::simgrid_backend {
namespace {

namespace sg = simgrid::s4u;

using Message = std::vector<float>;

class RingMember {
 public:
  RingMember(Communicator& communicator, int member)
      : communicator_(communicator), ring_(communicator.ring()), n_(ring_.group.size), me_(member) {
    const std::string name = "ring." + std::to_string(ring_.group.first) + "." + std::to_string(ring_.group.stride) + "." +
                             std::to_string(n_) + "." + name_of(communicator.lane()) + ".";
    right_ = sg::Mailbox::by_name(name + std::to_string((me_ + 1) % n_));
    left_ = sg::Mailbox::by_name(name + std::to_string(me_));
    left_->set_receiver(sg::Actor::self());  // eager: a message travels when it is sent, as a put into the neighbour's buffer
  }

  /// The head of the communicator's queue.
  void run() {
    Pending& pending = communicator_.head();
    chunk_bytes_ = std::uint64_t(pending.bytes / n_);
    mine_ = pending.members.empty() ? nullptr : &pending.members[me_];
    sent_ = &pending.sent[me_];
    if (ring_.base_latency > 0) sg::this_actor::sleep_for(ring_.base_latency);
    Message own;
    if (pending.verb == Verb::all_gather) {
      if (mine_) own = copied(whole_of(mine_->from));
    } else {
      own = reduce();
    }
    if (pending.verb == Verb::reduce_scatter) {
      if (mine_) store(own, whole_of(mine_->to)), numerics::poison_foreign_slices(*mine_);
    } else {
      spread(std::move(own));
    }
  }

 private:
  /// After step s this member holds the sum of chunk me-s-2 over the members from that chunk's successor to itself.
  Message reduce() {
    Message partial;
    if (mine_) partial = copied(numerics::chunk(mine_->from, n_, member(-1)));
    for (int step = 0; step < n_ - 1; ++step) {
      partial = exchange(std::move(partial));
      if (!mine_) continue;
      const numerics::Chunk own = numerics::chunk(mine_->from, n_, member(-step - 2));
      numerics::add_hop(mine_->from.dtype(), own.at, partial.data(), own.count);
    }
    return partial;
  }

  /// Chunk c spreads from member c.
  void spread(Message message) {
    if (mine_) store(message, numerics::chunk(mine_->to, n_, me_));
    for (int step = 0; step < n_ - 1; ++step) {
      message = exchange(std::move(message));
      if (mine_) store(message, numerics::chunk(mine_->to, n_, member(-step - 1)));
    }
  }

  Message exchange(Message message) {
    auto* sent = new Message(std::move(message));
    const sg::CommPtr put = right_->put_async(sent, chunk_bytes_);
    ring_.edge_bytes[me_] += double(chunk_bytes_);
    *sent_ += std::int64_t(chunk_bytes_);
    Message* received = nullptr;
    const sg::CommPtr got = left_->get_async(&received);
    got->wait();
    put->wait();
    // The wire took its bandwidth's time; the edge's latency is ours to pay, from the moment of arrival.
    sg::this_actor::sleep_until(got->get_finish_time() + ring_.latencies[member(-1)]);
    const std::unique_ptr<Message> owner(received);
    return std::move(*owner);
  }

  int member(int distance) const { return ((me_ + distance) % n_ + n_) % n_; }
  static numerics::Chunk whole_of(const Tensor& tensor) { return numerics::chunk(tensor, 1, 0); }
  static Message copied(numerics::Chunk chunk) { return Message(chunk.at, chunk.at + chunk.count); }
  static void store(const Message& message, numerics::Chunk chunk) {
    if (chunk.count > 0 && message.data() != chunk.at) std::copy_n(message.begin(), chunk.count, chunk.at);
  }

  Communicator& communicator_;
  Ring& ring_;
  int n_, me_;
  sg::Mailbox *left_, *right_;
  std::uint64_t chunk_bytes_ = 0;
  const Collective* mine_ = nullptr;
  std::int64_t* sent_ = nullptr;
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
