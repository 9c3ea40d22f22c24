// Nodes that meet: they agree on bytes, wait for each other, and hear within moments when one of them fails or is gone.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <csignal>
#include <thread>

#include "backends/cuda/hosts.h"
#include "gpu/on_nodes.h"

using namespace shardsim;
using namespace shardsim::cuda;
using test::for_ever;
using test::on_nodes;
using test::Seat;
using test::Shared;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// What a node can wait for.
void wait_for(const std::string& what, Rendezvous& nodes) {
  if (what == "a barrier") nodes.barrier();
  if (what == "a key") nodes.get("what nobody says");
  if (what == "the end") nodes.gather("");
}
const char* const waits[] = {"a barrier", "a key", "the end"};

std::string gone(int node) { return Nodes{3, 0, 6}.name_of(node) + " is gone: its process ended, or its network did"; }

template <class F>
std::string error_of(F f) {
  try {
    f();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

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
                                                             : std::string(kind) + ": node " + std::to_string(failing) +
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
    const std::string others = killed ? gone(1) : "node 1: rank 3, all_gather(unit 1): no";
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

TEST_CASE("who comes before node 0 listens tries again") {
  Shared knocking;
  const std::vector<std::string> found = on_nodes(3, [&](Seat& seat) {
    if (seat.nodes.me == 0) knocking.await(2);
    else ++*knocking;
    seat.meet()->gather("");
    return std::string("met");
  });
  for (const std::string& text : found) CHECK(text == "met");
}

TEST_CASE("nodes may meet at the same place again and again, as for one scheme after the other") {
  const std::vector<std::string> found = on_nodes(3, [&](Seat& seat) {
    std::string all;
    for (const std::string scheme : {"dp", "zero1", "zero3"}) {
      const auto nodes = seat.meet(scheme);
      if (seat.nodes.me == 1) nodes->put("what", scheme + " ");
      all += nodes->get("what");
      nodes->gather("");
    }
    return all;
  });
  for (const std::string& text : found) CHECK(text == "dp zero1 zero3 ");
}

TEST_CASE("when nobody comes, or nobody answers, patience ends with one line") {
  const std::vector<std::string> found = on_nodes(1, [](Seat& seat) {
    seat.nodes.count = 3, seat.nodes.world = 3;
    return error_of([&] { seat.meet("a run", 0.05); });
  });
  CHECK(has(found[0], "node 1 (rank 1), node 2 (rank 2) did not come within 0.05 s; start the same there"));
  CHECK(has(found[0], "rendezvous at 127.0.0.1:"));

  const Socket nobody_listens = Socket::bound_to(0);
  const std::string port = std::to_string(nobody_listens.port());
  CHECK(error_of([&] {
          Rendezvous({2, 1, 2, "127.0.0.1", nobody_listens.port()}, "a run", 0.05);
        }) == "rendezvous at 127.0.0.1:" + port +
                  ": node 0 did not let all begin within 0.05 s (Connection refused); start it there, and see that this machine "
                  "can reach it");
  Socket taken = Socket::bound_to(0);
  taken.listen();
  CHECK(error_of([&] {
          Rendezvous({2, 0, 2, "127.0.0.1", taken.port()}, "a run", 0.05);
        }) == "port " + std::to_string(taken.port()) + " cannot be had: Address already in use; choose another one");
}

TEST_CASE("a node that has come and is gone before all are there ends the meeting at once") {
  Shared listening;
  const std::vector<std::string> found = on_nodes(2, [&](Seat& seat) {
    seat.nodes.count = 3, seat.nodes.world = 6;  // node 2 never comes
    if (seat.nodes.me == 1) listening.await(1);
    if (seat.nodes.me == 1) return error_of([&] { seat.meet("a run", 0.05); });
    seat.door.listen();
    ++*listening;
    return error_of([&] { seat.meet(); });
  });
  CHECK(has(found[0], ": node 1 (ranks 2-3) came, and is gone"));
  CHECK(has(found[1], ": node 0 did not let all begin within 0.05 s (it hung up, or not all are there); "));
}

TEST_CASE("strangers at the door are turned away, and do not keep the nodes from meeting") {
  const std::vector<std::string> found = on_nodes(2, [](Seat& seat) {
    if (seat.nodes.me == 0) {
      seat.meet()->gather("");
      return std::string("met");
    }
    std::string why;
    std::vector<Socket> strangers;
    while (strangers.size() < 4)  // node 0 may not listen yet
      if (Socket made = Socket::connected_to("127.0.0.1", seat.nodes.port, for_ever / 1e3, why))
        strangers.push_back(std::move(made));
    const std::string words[] = {"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "", "shardsim", "s"};
    for (std::size_t i = 0; i < strangers.size(); ++i) strangers[i].send(words[i].data(), words[i].size());
    strangers.pop_back();  // one hangs up
    char end = 0;
    const bool turned_away = recv(strangers[0].descriptor(), &end, 1, 0) <= 0;
    seat.meet()->gather("");
    return std::string(turned_away ? "met" : "a stranger was answered");
  });
  for (const std::string& text : found) CHECK(text == "met");
}

TEST_CASE("two different runs do not meet: who is wrong is told, and the right node may still come") {
  Shared refused;
  const std::vector<std::string> found = on_nodes(5, [&](Seat& seat) {
    const int player = std::exchange(seat.nodes.me, seat.nodes.me == 0 ? 0 : 1);
    const int number = player == 2 ? 3 : 2;
    seat.nodes.count = number, seat.nodes.world = player == 4 ? 4 : 2 * number;
    if (player == 3) seat.nodes.me = 0, seat.door = {};
    if (player == 0 || player == 4) {
      if (player == 4) refused.await(3);
      seat.meet("this run")->gather("");
      return std::string("met");
    }
    const std::string error = error_of([&] {
      Nodes nodes = seat.nodes;
      if (player == 3) nodes.me = 2, nodes.count = 2;
      Rendezvous(nodes, player == 1 ? "another run" : "this run", for_ever);
    });
    ++*refused;
    return error.substr(error.find(": ", error.find("127.0.0.1")) + 2);
  });
  CHECK(found[0] == "met");
  CHECK(found[1] == "node 0 runs another scenario, or another version of the program; give all nodes the same files and options");
  CHECK(found[2] == "node 0 was told of 2 nodes, and this one of 3; give all the same --nnodes");
  CHECK(found[3] == "there is a node 2 already; give each another --node-rank");
  CHECK(found[4] == "met");
}

TEST_CASE("what is no frame of this program is refused, before its length is believed") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  Socket here(ends[0]), there(ends[1]);
  here.send({7, "key", "value"});
  Frame frame;
  REQUIRE(there.receive(frame));
  CHECK(frame.kind == 7);
  CHECK(frame.key + "=" + frame.value == "key=value");
  const std::string ssh = "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n";
  here.send(ssh.data(), ssh.size());
  CHECK(error_of([&] { there.receive(frame); }) == "what came over the network is no word of this program");
}
