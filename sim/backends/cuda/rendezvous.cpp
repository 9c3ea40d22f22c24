// Rendezvous: what nodes say to each other once they have met. A reader thread per connection.
#include "backends/cuda/rendezvous.h"

#include <chrono>
#include <utility>

#include "backends/cuda/greeting.h"

namespace shardsim::cuda {
namespace {

/// A failure as it travels: its kind as a letter, then its text.
std::string in_words(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ScenarioError& e) {
    return std::string("s") + e.what();
  } catch (const IllegalStep& e) {
    return std::string("i") + e.what();
  } catch (const NodeGone& e) {
    return std::string("n") + e.what();
  } catch (const std::exception& e) {
    return std::string("g") + e.what();
  } catch (...) {
    return "gsomething that is no std::exception";
  }
}

std::exception_ptr error_of(const std::string& by, const std::string& words) {
  const std::string text = by + words.substr(words.empty() ? 0 : 1);
  switch (words.empty() ? 'g' : words[0]) {
    case 's':
      return std::make_exception_ptr(ScenarioError(text));
    case 'i':
      return std::make_exception_ptr(IllegalStep(text));
    case 'n':
      return std::make_exception_ptr(NodeGone(text));
    default:
      return std::make_exception_ptr(GpuError(text));
  }
}

}  // namespace

Rendezvous::Rendezvous(const Nodes& nodes, const std::string& run, double patience, Socket door)
    : nodes_(nodes), gathered_(std::size_t(nodes.count)) {
  if (nodes.me == 0) {
    for (Socket& guest : guests_of(nodes, run, patience, std::move(door)))
      peers_.push_back(std::make_unique<Peer>(int(peers_.size()) + 1, std::move(guest)));
  } else {
    peers_.push_back(std::make_unique<Peer>(0, host_of(nodes, run, patience)));
  }
  listening_ = int(peers_.size());
  for (const auto& peer : peers_) peer->reader = std::thread([this, at = peer.get()] { read(*at); });
}

Rendezvous::~Rendezvous() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !failing_ || error_; });  // the others hear of the failure before they hear goodbye
  }
  say_to_all({goodbye, "", ""});
  for (const auto& peer : peers_) peer->socket.end_sending();
  {  // what this node has said may be lost if it closes before all have heard it
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(5), [&] { return listening_ == 0; });
  }
  for (const auto& peer : peers_) peer->socket.end_receiving();
  for (const auto& peer : peers_) peer->reader.join();
}

void Rendezvous::put(const std::string& key, const std::string& bytes) {
  keep(key, bytes);
  if (nodes_.me != 0) say(*peers_[0], {Said::put, key, bytes});
}

std::string Rendezvous::get(const std::string& key) {
  std::unique_lock lock(mutex_);
  if (nodes_.me != 0 && known_.count(key) == 0) {
    lock.unlock();
    say(*peers_[0], {Said::get, key, ""});
    lock.lock();
  }
  wait(lock, [&] { return known_.count(key) > 0; });
  return known_.at(key);
}

void Rendezvous::barrier() {
  std::uint64_t before = 0;
  {
    const std::lock_guard lock(mutex_);
    before = passed_;
  }
  if (nodes_.me == 0) arrive();
  else say(*peers_[0], {arrived, "", ""});
  std::unique_lock lock(mutex_);
  wait(lock, [&] { return passed_ != before; });
}

std::vector<std::string> Rendezvous::gather(std::string bytes) {
  if (nodes_.me != 0) say(*peers_[0], {share, "", std::move(bytes)});
  barrier();
  if (nodes_.me != 0) return {};
  gathered_[0] = std::move(bytes);
  return std::move(gathered_);
}

void Rendezvous::fail(std::exception_ptr error) noexcept {
  fail(error, {failed, "node " + std::to_string(nodes_.me) + ": ", in_words(error)}, nodes_.me);
}

void Rendezvous::when_failed(std::function<void(std::exception_ptr)> told) {
  const std::lock_guard lock(mutex_);
  told_ = std::move(told);
  if (error_ && told_) told_(error_);
}

void Rendezvous::await_failure(double seconds) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return bool(error_); });
}

// ---- what comes

void Rendezvous::read(Peer& peer) {
  std::exception_ptr error;
  try {
    for (Frame frame; peer.socket.receive(frame);) hear(peer, frame);
  } catch (...) {
    error = std::current_exception();
  }
  bool has_left = false;
  {
    const std::lock_guard lock(mutex_);
    has_left = left_.count(peer.node) > 0;
  }
  if (error) fail(error);
  else if (!has_left) {
    const std::string text = nodes_.name_of(peer.node) + " is gone: its process ended, or its network did";
    fail(std::make_exception_ptr(NodeGone(text)), {failed, "", "n" + text}, peer.node);
  }
  const std::lock_guard lock(mutex_);
  --listening_;
  changed_.notify_all();
}

void Rendezvous::hear(Peer& peer, Frame& frame) {
  switch (frame.kind) {
    case Said::put:
    case value:
      return keep(frame.key, frame.value);
    case Said::get: {
      std::unique_lock lock(mutex_);
      const auto found = known_.find(frame.key);
      if (found == known_.end()) return wanted_[frame.key].push_back(&peer);
      const std::string bytes = found->second;
      lock.unlock();
      return say(peer, {value, frame.key, bytes});
    }
    case arrived:
      return arrive();
    case go: {
      const std::lock_guard lock(mutex_);
      ++passed_;
      return changed_.notify_all();
    }
    case share:
      gathered_.at(std::size_t(peer.node)) = std::move(frame.value);  // read after the barrier that its node comes to next
      return;
    case failed:
      return fail(error_of(frame.key, frame.value), frame, peer.node);
    case goodbye: {
      const std::lock_guard lock(mutex_);
      left_.insert(peer.node);
      return changed_.notify_all();
    }
    default:
      throw GpuError(nodes_.name_of(peer.node) + " said what this program does not understand");
  }
}

/// On node 0 also for those who have asked.
void Rendezvous::keep(const std::string& key, const std::string& bytes) {
  std::vector<Peer*> waiting;
  {
    const std::lock_guard lock(mutex_);
    known_.try_emplace(key, bytes);
    if (const auto asked = wanted_.extract(key)) waiting = asked.mapped();
    changed_.notify_all();
  }
  for (Peer* peer : waiting) say(*peer, {value, key, bytes});
}

/// On node 0, for each node.
void Rendezvous::arrive() {
  {
    const std::lock_guard lock(mutex_);
    if (++arrived_ < nodes_.count) return;
    arrived_ = 0;
    going_ = true;
  }
  say_to_all({go, "", ""});  // before this node goes, and says goodbye perhaps
  const std::lock_guard lock(mutex_);
  ++passed_;
  going_ = false;
  changed_.notify_all();
}

void Rendezvous::fail(std::exception_ptr error, const Frame& words, int told_by) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(failing_, true)) return;
  }
  say_to_all(words, told_by);
  const std::lock_guard lock(mutex_);
  error_ = std::move(error);
  if (told_) told_(error_);
  changed_.notify_all();
}

// ---- what is said

void Rendezvous::say(Peer& peer, const Frame& frame) {
  const std::lock_guard lock(peer.sending);
  peer.socket.send(frame);
}

void Rendezvous::say_to_all(const Frame& frame, int except) {
  for (const auto& peer : peers_)
    if (peer->node != except) say(*peer, frame);
}

template <class Done>
void Rendezvous::wait(std::unique_lock<std::mutex>& lock, Done done) {
  changed_.wait(lock, [&] { return done() || error_ || (!left_.empty() && !going_ && !failing_); });
  if (done()) return;
  if (error_) std::rethrow_exception(error_);
  throw GpuError(nodes_.name_of(*left_.begin()) + " has left before the others");
}

}  // namespace shardsim::cuda
