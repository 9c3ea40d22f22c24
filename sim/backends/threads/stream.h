// Stream: a lane of one rank. The host enqueues tasks, one worker thread carries them out in order.
#pragma once
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include "backends/threads/counter.h"

namespace shardsim::threads {

/// One producer (the rank's host thread), one consumer (the worker), no lock. A list of nodes and not a ring of slots: to use a
/// slot again the host would have to acquire what the worker did, which would order this stream before all others of the rank.
class Stream {
 public:
  static constexpr std::uint64_t depth = 1024;  ///< tasks in the queue, as on a GPU; the host waits when it is that far ahead

  explicit Stream(Alarm& alarm);
  ~Stream() { close(); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Host only. Returns the task's position, from 1 on. Throws Stopped once the alarm is raised.
  template <class F>
  std::uint64_t enqueue(F work, Waiter& host) {
    return push(std::make_unique<Task<F>>(std::move(work)), host);
  }
  std::uint64_t enqueued() const { return enqueued_; }

  /// How many tasks are done.
  const Counter& done() const { return done_; }
  const Alarm& alarm() const { return alarm_; }
  /// What the worker waits for. Tasks that wait use it too.
  Waiter& waiter() { return waiter_; }
  /// Lets the worker end after what is enqueued. Called when the host thread has ended.
  void close();

 private:
  struct Node {
    virtual ~Node() = default;
    virtual void run() {}
    Node* next = nullptr;
  };
  template <class F>
  struct Task : Node {
    explicit Task(F f) : work(std::move(f)) {}
    void run() override { work(); }
    F work;
  };
  std::uint64_t push(std::unique_ptr<Node>, Waiter& host);
  void append(std::unique_ptr<Node>);
  void work();

  Alarm& alarm_;
  Node* last_;  // host's: the newest node
  std::uint64_t enqueued_ = 0;
  bool closed_ = false;
  Counter published_, done_;
  Node* spent_;  // worker's: the node before the next one
  Waiter waiter_;
  std::thread worker_;  // started by the first task
};

}  // namespace shardsim::threads
