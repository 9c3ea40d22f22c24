// Process: a function run in a forked process of its own, its answer as bytes. SimGrid has one engine per process, and ends the
// process on a platform that it refuses.
#pragma once
#include <functional>
#include <string>

namespace shardsim {

struct ProcessEnd {
  std::string answer;     ///< what the function returned
  bool answered = false;  ///< false: the process died before
  std::string messages;   ///< what it wrote to the descriptor that it was given
  std::string how;        ///< "exit code 1", "signal 11"
};

/// Forks, calls `body(messages)` in the child, and waits. `messages` is a descriptor for what should be read if the child dies. A
/// signal that wakes this process is passed on as SIGINT once `interrupted` says so. The child does not outlive this process.
ProcessEnd run_in_process(const std::function<std::string(int messages)>& body, const std::function<bool()>& interrupted = {});

}  // namespace shardsim
