// Process: a function run in a forked process of its own, its answer as bytes. SimGrid has one engine per process, and ends the
// process on a platform that it refuses.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

namespace shardsim {

struct ProcessEnd {
  std::string answer;     ///< what the function returned
  bool answered = false;  ///< false: the process died before
  std::string messages;   ///< what it wrote to the descriptor that it was given
  bool hung = false;      ///< it was ended because nothing happened for too long
  std::string how;        ///< "exit code 1", "signal 11"
};

/// What the parent looks at while it waits.
struct Watch {
  std::function<bool()> interrupted;                  ///< asked when a signal wakes the parent; true passes SIGINT on to the child
  const std::atomic<std::uint64_t>* pulse = nullptr;  ///< in memory that both share: has to grow within `patience` seconds
  double patience = 0;
};

/// A counter in memory that is shared with processes forked later; unmapped with the object.
class SharedCounter {
 public:
  SharedCounter();
  ~SharedCounter();
  SharedCounter(const SharedCounter&) = delete;
  SharedCounter& operator=(const SharedCounter&) = delete;
  std::atomic<std::uint64_t>* get() { return counter_; }

 private:
  std::atomic<std::uint64_t>* counter_;
};

/// Forks, calls `body(messages)` in the child, and waits. `messages` is a descriptor for what should be read if the child dies. The
/// child does not outlive this process.
ProcessEnd run_in_process(const std::function<std::string(int messages)>& body, const Watch& watch = {});

}  // namespace shardsim
