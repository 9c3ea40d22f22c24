// Nodes that greet each other: strangers, other runs, who comes early, late or never; and the connections that are left.
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "gpu/on_nodes.h"

using namespace shardsim;
using namespace shardsim::cuda;
using test::error_of;
using test::for_ever;
using test::on_nodes;
using test::Seat;
using test::Shared;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a machine that gives no sign of life is gone after a share of the patience") {
  const Waits waits = Waits::of(120);
  Socket door = Socket::bound_to(0);
  door.listen();
  std::string why;
  Socket made = Socket::connected_to("127.0.0.1", door.port(), for_ever / 1e3, why);
  REQUIRE(made);
  made.end_after_silence(waits.silence);
  const auto option = [&](int level, int name) {
    int value = 0;
    socklen_t size = sizeof value;
    CHECK(getsockopt(made.descriptor(), level, name, &value, &size) == 0);
    return value;
  };
  CHECK(option(SOL_SOCKET, SO_KEEPALIVE) == 1);
  CHECK(option(IPPROTO_TCP, TCP_USER_TIMEOUT) == 15'000);
  CHECK(option(IPPROTO_TCP, TCP_KEEPIDLE) + 5 * option(IPPROTO_TCP, TCP_KEEPINTVL) == 15);
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

TEST_CASE("when nobody comes, or nobody answers, patience ends with one line") {
  const std::vector<std::string> found = on_nodes(1, [](Seat& seat) {
    seat.nodes.count = 3, seat.nodes.world = 3;
    seat.waits.patience = 0.05;
    return error_of([&] { seat.meet(); });
  });
  CHECK(has(found[0], "node 1 (rank 1), node 2 (rank 2) did not come within 0.05 s; start the same there"));
  CHECK(has(found[0], "rendezvous at 127.0.0.1:"));

  const Socket nobody_listens = Socket::bound_to(0);
  const std::string port = std::to_string(nobody_listens.port());
  CHECK(error_of([&] {
          greet({2, 1, 2, "127.0.0.1", nobody_listens.port()}, "a run", Waits::of(0.05));
        }) == "rendezvous at 127.0.0.1:" + port +
                  ": node 0 did not let all begin within 0.05 s (Connection refused); start it there, and see that this machine "
                  "can reach it");
  Socket taken = Socket::bound_to(0);
  taken.listen();
  CHECK(error_of([&] {
          greet({2, 0, 2, "127.0.0.1", taken.port()}, "a run", Waits::of(0.05));
        }) == "port " + std::to_string(taken.port()) + " cannot be had: Address already in use; choose another one");
}

TEST_CASE("a node that has come and is gone before all are there ends the meeting at once") {
  Shared listening;
  const std::vector<std::string> found = on_nodes(2, [&](Seat& seat) {
    seat.nodes.count = 3, seat.nodes.world = 6;  // node 2 never comes
    if (seat.nodes.me == 1) listening.await(1);
    if (seat.nodes.me == 1) seat.waits.patience = 0.05;
    if (seat.nodes.me == 1) return error_of([&] { seat.meet(); });
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
      seat.greet("this run");
      seat.meet()->gather("");
      return std::string("met");
    }
    const std::string error = error_of([&] {
      Nodes nodes = seat.nodes;
      if (player == 3) nodes.me = 2, nodes.count = 2;
      greet(nodes, player == 1 ? "another run" : "this run", Waits::of(for_ever));
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
