// Rendezvous: the processes of a run on several nodes meet over TCP, agree on bytes, and hear when one of them fails or is gone.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "backends/cuda/errors.h"
#include "backends/cuda/nodes.h"
#include "backends/cuda/socket.h"
#include "backends/cuda/waits.h"

namespace shardsim::cuda {

/// What a run's nodes say to each other over Nodes::met while one scheme is carried out. Whatever a call here waits for, it ends:
/// when a node fails, is interrupted or is gone, by that error. Calls may come from any thread.
class Rendezvous {
 public:
  /// `interrupted` is asked while something is waited for: true is an Interrupted for all nodes. Throws nothing.
  Rendezvous(const Nodes&, const Waits&, std::function<bool()> interrupted = {});
  /// Says goodbye, and hears it from all others: the next scheme may begin. After a failure it waits no longer than a farewell, and
  /// the connections are of no use any more.
  ~Rendezvous();
  const Nodes& nodes() const { return nodes_; }

  /// Some node says what the key's bytes are, once; all others that want to know wait until it has.
  void put(const std::string& key, const std::string& value);
  std::string get(const std::string& key);
  /// Returns when all nodes have come to their next barrier: at the same time, but for one message's latency. With a limit node 0
  /// waits no longer than a stall, and then says whom it waited for (GpuError).
  void barrier(bool limited = false);
  /// A barrier after which node 0 has the bytes of all nodes, in their order. The others get nothing. Once.
  std::vector<std::string> gather(std::string bytes);

  /// Tells all nodes why this one cannot go on. Only the first failure of a run counts.
  void fail(std::exception_ptr) noexcept;
  /// `told` is called when the run has failed, from any thread: with the first error, of the same kind as where it was thrown. An
  /// empty one ends that.
  void when_failed(std::function<void(std::exception_ptr)> told);
  /// Waits for the news that a node has failed, which may be on its way.
  void await_news();

 private:
  struct Peer {
    int node;
    Socket& socket;
    std::mutex sending = {};
    std::thread reader = {};
  };
  void read(Peer&);
  void hear(Peer&, Frame&);
  void say(Peer&, const Frame&);
  void say_to_all(const Frame&, int except = -1);
  void keep(const std::string& key, const std::string& value);
  void arrive(int node);
  std::string missing() const;
  bool has_left(const Peer&);
  void fail(std::exception_ptr, const Frame& in_words, int told_by) noexcept;
  template <class Done>
  void wait(std::unique_lock<std::mutex>&, Done, double seconds = no_limit);
  static constexpr double no_limit = 0;

  Nodes nodes_;
  Waits waits_;
  std::function<bool()> interrupted_;
  std::vector<std::unique_ptr<Peer>> peers_;  // of node 0: all others; of another one: node 0
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> known_;
  std::map<std::string, std::vector<Peer*>> wanted_;  // by whom, on node 0
  std::vector<std::string> gathered_;                 // on node 0
  std::set<int> arrived_;                             // nodes at the barrier to come, on node 0
  std::uint64_t passed_ = 0;                          // barriers
  bool going_ = false;                                // all are told that they may pass
  std::set<int> left_;                                // nodes that have said goodbye
  int listening_ = 0;                                 // readers at work
  bool failing_ = false;                              // the first failure is being told
  std::exception_ptr error_;                          // it has been told
  std::function<void(std::exception_ptr)> told_;
};

/// Between two schemes: says why this node goes no further. Null, where its last process may have died in the middle of a word: it
/// is gone.
void leave(const Nodes&, const std::exception_ptr& why);

}  // namespace shardsim::cuda
