// Nodes that meet: they agree on bytes, wait for each other, and hear within moments when one of them fails or is gone.
#include <doctest/doctest.h>

#include <csignal>
#include <thread>

#include "backends/cuda/hosts.h"
#include "gpu/on_nodes.h"

using namespace shardsim;
using namespace shardsim::cuda;
using test::error_of;
using test::on_nodes;
using test::Seat;
using test::Shared;

namespace {

/// What a node can wait for.
void wait_for(const std::string& what, Rendezvous& nodes) {
  if (what == "a barrier") nodes.barrier();
  if (what == "a key") nodes.get("what nobody says");
  if (what == "the end") nodes.gather("");
}
const char* const waits[] = {"a barrier", "a key", "the end"};

std::string gone(int node) { return Nodes{3, 0, 6}.name_of(node) + " is gone: its process ended, or its network did"; }

}  // namespace

TEST_CASE("nodes agree on what one of them says, and node 0 gets what all have, in their order") {
  for (const int count : {1, 2, 5}) {
    CAPTURE(count);
    const std::vector<std::string> found = on_nodes(count, [](Seat& seat) {
      const auto nodes = seat.meet();
      const int me = nodes->nodes().me, last = nodes->nodes().count - 1;
      if (me == last) nodes->put("name", std::string("\0of all", 7));
      if (me == 0) nodes->put("other", "by node 0");
      std::string text = nodes->get("name").substr(1) + ", " + nodes->get("other");
      for (const std::string& part : nodes->gather(std::string(std::size_t(me) * 100'000, 'x') + std::to_string(me)))
        text += "; " + std::to_string(part.size()) + " ending in " + part.back();
      return text;
    });
    std::string parts;
    for (int node = 0; node < count; ++node)
      parts += "; " + std::to_string(node * 100'000 + 1) + " ending in " + std::to_string(node);
    for (int node = 0; node < count; ++node) CHECK(found[std::size_t(node)] == "of all, by node 0" + (node == 0 ? parts : ""));
  }
}

TEST_CASE("nobody passes a barrier before all have come to it") {
  constexpr int count = 3, rounds = 50;
  Shared come;
  const std::vector<std::string> found = on_nodes(count, [&](Seat& seat) {
    const auto nodes = seat.meet();
    for (int round = 1; round <= rounds; ++round) {
      ++*come;
      nodes->barrier();
      if ((*come).load() < count * round) return "too early in round " + std::to_string(round);
    }
    nodes->gather("");
    return std::string("all were there");
  });
  for (const std::string& text : found) CHECK(text == "all were there");
}

TEST_CASE("threads of one node may ask for the same and for different things at the same time") {
  const std::vector<std::string> found = on_nodes(2, [](Seat& seat) {
    const auto nodes = seat.meet();
    std::vector<std::string> texts(8);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < texts.size(); ++i)
      threads.emplace_back([&, i] {
        const std::string key = "key " + std::to_string(i / 2);
        if (i % 2 == 0 && int(i / 2) % 2 == nodes->nodes().me) nodes->put(key, "value of " + key);
        texts[i] = nodes->get(key);
      });
    for (std::thread& thread : threads) thread.join();
    nodes->gather("");
    std::string all;
    for (const std::string& text : texts) all += text + "\n";
    return all;
  });
  std::string all;
  for (int i = 0; i < 8; ++i) all += "value of key " + std::to_string(i / 2) + "\n";
  for (const std::string& text : found) CHECK(text == all);
}

TEST_CASE("a node that is killed is named to all others, whatever they wait for") {
  for (const char* what : waits)
    for (const int killed : {0, 1, 2}) {
      CAPTURE(what);
      CAPTURE(killed);
      const std::vector<std::string> found = on_nodes(3, [&](Seat& seat) {
        const auto nodes = seat.meet();
        nodes->barrier();
        if (seat.nodes.me == killed) std::raise(SIGKILL);
        wait_for(what, *nodes);
        return std::string("went on");
      });
      for (int node = 0; node < 3; ++node)
        CHECK(found[std::size_t(node)] == (node == killed ? "killed" : "error: " + gone(killed)));
    }
}

TEST_CASE("a node that fails tells all others why, and theirs is the same kind of error") {
  for (const char* what : waits)
    for (const int failing : {0, 2}) {
      CAPTURE(what);
      CAPTURE(failing);
      for (const char* kind : {"illegal", "scenario", "gpu"}) {
        const std::vector<std::string> found = on_nodes(3, [&](Seat& seat) {
          const auto nodes = seat.meet();
          const std::string text = "rank 5, backward(unit 2), matmul: no";
          if (seat.nodes.me == failing) {
            nodes->fail(kind == std::string("illegal")    ? std::make_exception_ptr(IllegalStep(text))
                        : kind == std::string("scenario") ? std::make_exception_ptr(OutOfMemory(text))
                                                          : std::make_exception_ptr(GpuError(text)));
            return std::string("has failed");
          }
          try {
            wait_for(what, *nodes);
          } catch (const IllegalStep& error) {
            return std::string("illegal: ") + error.what();
          } catch (const ScenarioError& error) {
            return std::string("scenario: ") + error.what();
          } catch (const GpuError& error) {
            return std::string("gpu: ") + error.what();
          }
          return std::string("went on");
        });
        for (int node = 0; node < 3; ++node)
          CHECK(found[std::size_t(node)] == (node == failing ? "has failed"
                                                             : std::string(kind) + ": " + Nodes{3, 0, 6}.name_of(failing) +
                                                                   ": rank 5, backward(unit 2), matmul: no"));
      }
    }
}

TEST_CASE("a node that leaves too early is an error of those who wait for it") {
  for (const int leaving : {0, 1}) {
    const std::vector<std::string> found = on_nodes(2, [&](Seat& seat) {
      const auto nodes = seat.meet();
      if (seat.nodes.me != leaving) nodes->barrier();
      return std::string("left");
    });
    CHECK(found[std::size_t(leaving)] == "left");
    CHECK(found[std::size_t(1 - leaving)] == (leaving == 0 ? "error: node 0 (ranks 0-1) has left before the others"
                                                           : "error: node 1 (ranks 2-3) has left before the others"));
  }
}

TEST_CASE("when a rank fails on one node, or the node is killed, the ranks of all nodes stop and know why") {
  for (const bool killed : {false, true}) {
    const std::vector<std::string> found = on_nodes(3, [&](Seat& seat) {
      if (!killed) seat.waits.news = 0.1;  // there will be none
      const auto nodes = seat.meet();
      Hosts hosts(2);
      const std::function<void(int)> body = [&](int rank) {
        if (rank == 3 && killed) std::raise(SIGKILL);
        if (rank == 3) throw GpuError("rank 3, all_gather(unit 1): no");
        while (!hosts.failed()) std::this_thread::yield();  // as a host does that waits for its GPU
        throw Stopped();
      };
      nodes->barrier();
      return error_of([&] { hosts.run(2 * seat.nodes.me, nodes.get(), body, [](int) {}); });
    });
    const std::string others = killed ? gone(1) : "node 1 (ranks 2-3): rank 3, all_gather(unit 1): no";
    CHECK(found[0] == others);
    CHECK(found[1] == (killed ? "killed" : "rank 3, all_gather(unit 1): no"));
    CHECK(found[2] == others);
  }
}

TEST_CASE("what NCCL makes of a node that is gone does not hide which one it was") {
  const std::vector<std::string> found = on_nodes(2, [&](Seat& seat) {
    const auto nodes = seat.meet();
    nodes->barrier();
    if (seat.nodes.me == 1) {
      nodes->get("has failed");  // node 0's rank is at its error before this node is gone
      std::raise(SIGKILL);
    }
    Hosts hosts(2);
    const std::function<void(int)> body = [&](int rank) {
      if (rank == 1) throw Stopped();
      nodes->put("has failed", "");
      throw GpuError("NCCL: all_reduce(unit 1): remote process exited or there was a network error");
    };
    return error_of([&] { hosts.run(0, nodes.get(), body, [](int) {}); });
  });
  CHECK(found[0] == Nodes{2, 0, 4}.name_of(1) + " is gone: its process ended, or its network did");
  CHECK(found[1] == "killed");
}

TEST_CASE("a node that is killed between two schemes is named at once to those who begin the next") {
  for (const int killed : {0, 1}) {
    const std::vector<std::string> found = on_nodes(3, [&](Seat& seat) {
      seat.meet()->gather("");
      if (seat.nodes.me == killed) std::raise(SIGKILL);
      return error_of([&] { seat.meet()->barrier(true); });
    });
    for (int node = 0; node < 3; ++node) CHECK(found[std::size_t(node)] == (node == killed ? "killed" : gone(killed)));
  }
}

TEST_CASE("a program says that it is gone when a scheme's process died in it") {
  const std::vector<std::string> found = on_nodes(3, [](Seat& seat) {
    seat.greet();
    if (seat.nodes.me != 1) return error_of([&] { seat.meet()->barrier(true); });
    const pid_t process = fork();
    if (process == 0) {
      const auto nodes = seat.meet();
      std::raise(SIGKILL);
    }
    waitpid(process, nullptr, 0);
    leave(seat.nodes, nullptr);
    return std::string("has left");
  });
  for (int node = 0; node < 3; ++node) CHECK(found[std::size_t(node)] == (node == 1 ? "has left" : gone(1)));
}

TEST_CASE("who does not come to the next scheme is named when patience ends") {
  const std::vector<std::string> found = on_nodes(2, [](Seat& seat) {
    if (seat.nodes.me == 0) seat.waits.stall = 0.05;
    const auto nodes = seat.meet();
    return error_of([&] { seat.nodes.me == 0 ? nodes->barrier(true) : wait_for("a key", *nodes); });
  });
  CHECK(found[0] == "node 1 (ranks 2-3) did not come to the next scheme within 0.05 s");
  CHECK(found[1] == "node 0 (ranks 0-1): " + found[0]);
}

TEST_CASE("when one node is interrupted all are, whether they wait, work or are between two schemes") {
  const auto end_of = [](const std::function<void()>& f) {
    try {
      f();
      return std::string("went on");
    } catch (const Interrupted&) {
      return std::string("interrupted");
    }
  };
  for (const int interrupted : {0, 1}) {
    CAPTURE(interrupted);
    for (const char* what : waits) {
      CAPTURE(what);
      const std::vector<std::string> waiting = on_nodes(3, [&](Seat& seat) {
        if (seat.nodes.me == interrupted) seat.interrupted = [] { return true; };
        const auto nodes = seat.meet();
        return end_of([&] { wait_for(seat.nodes.me == 2 ? "a key" : what, *nodes); });
      });
      for (const std::string& text : waiting) CHECK(text == "interrupted");
    }
    const std::vector<std::string> working = on_nodes(3, [&](Seat& seat) {
      const auto nodes = seat.meet();
      Hosts hosts(2);
      const std::function<void(int)> body = [&](int rank) {
        if (rank == 2 * interrupted) throw Interrupted();
        while (!hosts.failed()) std::this_thread::yield();
        throw Stopped();
      };
      return end_of([&] { hosts.run(2 * seat.nodes.me, nodes.get(), body, [](int) {}); });
    });
    for (const std::string& text : working) CHECK(text == "interrupted");
    const std::vector<std::string> between = on_nodes(3, [&](Seat& seat) {
      seat.meet()->gather("");
      if (seat.nodes.me != interrupted) return end_of([&] { seat.meet()->barrier(true); });
      leave(seat.nodes, std::make_exception_ptr(Interrupted()));
      return std::string("interrupted");
    });
    for (const std::string& text : between) CHECK(text == "interrupted");
  }
}

TEST_CASE("nodes that have met speak about one scheme after the other, and no word of one gets into the next") {
  const std::vector<std::string> found = on_nodes(3, [&](Seat& seat) {
    std::string all;
    for (const std::string scheme : {"dp", "zero1", "zero3"}) {
      const auto nodes = seat.meet();
      if (seat.nodes.me == 1) nodes->put("what", scheme + " ");
      all += nodes->get("what");
      nodes->gather("");
    }
    return all;
  });
  for (const std::string& text : found) CHECK(text == "dp zero1 zero3 ");
}
