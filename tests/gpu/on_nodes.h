// Processes that play the nodes of a run, for tests of what they say to each other.
#pragma once
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/cuda/greeting.h"
#include "backends/cuda/rendezvous.h"

namespace shardsim::test {

constexpr double for_ever = 1e6;  ///< seconds of patience in tests where nobody is late

template <class F>
std::string error_of(F f) {
  try {
    f();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// A counter that forked processes share.
class Shared {
 public:
  Shared() {
    void* at = mmap(nullptr, sizeof *counter_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    counter_ = new (at) std::atomic<int>(0);
  }
  ~Shared() { munmap(counter_, sizeof *counter_); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  std::atomic<int>& operator*() const { return *counter_; }
  void await(int value) const {
    while (counter_->load() < value) usleep(1000);
  }

 private:
  std::atomic<int>* counter_;
};

/// A node of two ranks, and the door at which node 0 will listen.
struct Seat {
  cuda::Nodes nodes;
  cuda::Socket door;  ///< node 0's
  cuda::Waits waits = cuda::Waits::of(for_ever);
  std::function<bool()> interrupted = {};
  void greet(const std::string& run = "a run") { nodes.met = cuda::greet(nodes, run, waits, std::move(door)); }
  /// For one scheme; the nodes greet each other before the first.
  std::unique_ptr<cuda::Rendezvous> meet() {
    if (!nodes.met) greet();
    return std::make_unique<cuda::Rendezvous>(nodes, waits, interrupted);
  }
};

/// Calls the body once per node, each in a process of its own: what it returns, "error: " and what it throws, or "killed".
inline std::vector<std::string> on_nodes(int count, const std::function<std::string(Seat&)>& body) {
  Seat seat;
  seat.nodes = {count, 0, 2 * count, "127.0.0.1", 0};
  seat.door = cuda::Socket::bound_to(0);
  seat.nodes.port = seat.door.port();
  struct Process {
    pid_t id;
    int answer;
  };
  std::vector<Process> processes;
  std::cout.flush(), std::fflush(nullptr);  // or the processes say it again
  for (int node = 0; node < count; ++node) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("no pipe to be had");
    const pid_t id = fork();
    if (id < 0) throw std::runtime_error("no process to be had");
    if (id == 0) {
      seat.nodes.me = node;
      if (node != 0) seat.door = {};
      std::string text;
      try {
        text = body(seat);
      } catch (const std::exception& error) {
        text = std::string("error: ") + error.what();
      }
      for (std::size_t done = 0; done < text.size();) {
        const ssize_t n = write(ends[1], text.data() + done, text.size() - done);
        if (n < 0 && errno != EINTR) _exit(1);
        if (n > 0) done += std::size_t(n);
      }
      _exit(0);
    }
    close(ends[1]);
    processes.push_back({id, ends[0]});
  }
  seat.door = {};
  std::vector<std::string> answers;
  for (const Process& process : processes) {
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = read(process.answer, buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR);)
      if (n > 0) text.append(buffer, std::size_t(n));
    close(process.answer);
    int status = 0;
    while (waitpid(process.id, &status, 0) < 0 && errno == EINTR) {}
    answers.push_back(WIFSIGNALED(status) ? "killed" : text);
  }
  return answers;
}

}  // namespace shardsim::test
