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
  } catch (const Interrupted&) {
    return "x";
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
    case 'x':
      return std::make_exception_ptr(Interrupted());
    case 'n':
      return std::make_exception_ptr(NodeGone(text));
    default:
      return std::make_exception_ptr(GpuError(text));
  }
}

/// What a node says when it fails.
Frame words_of(const Nodes& nodes, const std::exception_ptr& error) {
  return {failed, nodes.name_of(nodes.me) + ": ", in_words(error)};
}

}  // namespace

Rendezvous::Rendezvous(const Nodes& nodes, const Waits& waits, std::function<bool()> interrupted)
    : nodes_(nodes), waits_(waits), interrupted_(std::move(interrupted)), gathered_(std::size_t(nodes.count)) {
  int node = nodes.me == 0 ? 1 : 0;
  for (Socket& socket : *nodes_.met) peers_.push_back(std::make_unique<Peer>(node++, socket));
  listening_ = int(peers_.size());
  for (const auto& peer : peers_) peer->reader = std::thread([this, at = peer.get()] { read(*at); });
}

Rendezvous::~Rendezvous() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !failing_ || error_; });  // the others hear of the failure before they hear goodbye
  lock.unlock();
  say_to_all({goodbye, "", ""});
  lock.lock();
  const auto all_have_left = [&] { return listening_ == 0; };
  changed_.wait(lock, [&] { return error_ || all_have_left(); });
  changed_.wait_for(lock, std::chrono::duration<double>(waits_.farewell), all_have_left);
  const bool some_stay = !all_have_left();
  lock.unlock();
  for (const auto& peer : peers_) {
    if (some_stay) peer->socket.end_receiving();
    peer->reader.join();
  }
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

void Rendezvous::barrier(bool limited) {
  std::uint64_t before = 0;
  {
    const std::lock_guard lock(mutex_);
    before = passed_;
  }
  if (nodes_.me == 0) arrive(0);
  else say(*peers_[0], {arrived, "", ""});
  std::unique_lock lock(mutex_);
  wait(
      lock, [&] { return passed_ != before; }, limited && nodes_.me == 0 ? waits_.stall : no_limit);
}

std::vector<std::string> Rendezvous::gather(std::string bytes) {
  if (nodes_.me != 0) say(*peers_[0], {share, "", std::move(bytes)});
  barrier();
  if (nodes_.me != 0) return {};
  gathered_[0] = std::move(bytes);
  return std::move(gathered_);
}

void Rendezvous::fail(std::exception_ptr error) noexcept { fail(error, words_of(nodes_, error), nodes_.me); }

void Rendezvous::when_failed(std::function<void(std::exception_ptr)> told) {
  const std::lock_guard lock(mutex_);
  told_ = std::move(told);
  if (error_ && told_) told_(error_);
}

void Rendezvous::await_news() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(waits_.news), [&] { return bool(error_); });
}

// ---- what comes

void Rendezvous::read(Peer& peer) {
  std::exception_ptr error;
  try {
    for (Frame frame; !has_left(peer) && peer.socket.receive(frame);) hear(peer, frame);  // not what the next scheme's says
  } catch (...) {
    error = std::current_exception();
  }
  if (error) fail(error);
  else if (!has_left(peer)) {
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
      return arrive(peer.node);
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

bool Rendezvous::has_left(const Peer& peer) {
  const std::lock_guard lock(mutex_);
  return left_.count(peer.node) > 0;
}

/// On node 0, for each node.
void Rendezvous::arrive(int node) {
  {
    const std::lock_guard lock(mutex_);
    arrived_.insert(node);
    if (int(arrived_.size()) < nodes_.count) return;
    arrived_.clear();
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

/// On node 0, under the lock: who has not come to the barrier.
std::string Rendezvous::missing() const {
  std::string text;
  for (int node = 0; node < nodes_.count; ++node)
    if (arrived_.count(node) == 0) text += (text.empty() ? "" : ", ") + nodes_.name_of(node);
  return text;
}

template <class Done>
void Rendezvous::wait(std::unique_lock<std::mutex>& lock, Done done, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto over = [&] { return done() || error_ || (!left_.empty() && !going_ && !failing_); };
  constexpr auto glance = std::chrono::milliseconds(100);  // a signal wakes nobody here
  while (!changed_.wait_for(lock, glance, over)) {
    std::exception_ptr error;
    if (interrupted_ && interrupted_()) error = std::make_exception_ptr(Interrupted());
    else if (seconds > 0 && !going_ && Clock::now() - begin > std::chrono::duration<double>(seconds))
      error = std::make_exception_ptr(GpuError(missing() + " did not come to the next scheme within " + text_of_seconds(seconds)));
    if (!error) continue;
    lock.unlock();
    fail(error);
    lock.lock();
  }
  if (done()) return;
  if (error_) std::rethrow_exception(error_);
  throw GpuError(nodes_.name_of(*left_.begin()) + " has left before the others");
}

void leave(const Nodes& nodes, const std::exception_ptr& why) {
  for (Socket& socket : *nodes.met) {
    if (why) socket.send(words_of(nodes, why));
    socket.end_sending();
  }
}

}  // namespace shardsim::cuda
