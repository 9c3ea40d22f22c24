// Meetings of loopback's hosts: nobody leaves early, and whoever waits in vain is told.
#include <doctest/doctest.h>

#include <atomic>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "backends/cuda/errors.h"
#include "backends/cuda/hosts.h"

using namespace shardsim;
using namespace shardsim::cuda;

namespace {

/// Runs body(rank) on a thread each, and gives the message of the first error.
template <class F>
std::string error_of(Hosts& hosts, F body) {
  try {
    hosts.run(0, nullptr, body, [](int) {});
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a meeting is held when all are there, by the last to come, and nobody leaves before") {
  constexpr int world = 4, rounds = 200;
  Hosts hosts(world);
  Meeting meeting;
  std::vector<int> here(world, 0);
  int held = 0;
  bool all_seen = true;
  const std::string error = error_of(hosts, [&](int rank) {
    for (int round = 1; round <= rounds; ++round) {
      hosts.meet(
          meeting, world, [&] { here[std::size_t(rank)] = round; },
          [&] {
            for (const int at : here) all_seen &= at == round;
            ++held;
          });
    }
  });
  CHECK(error == "");
  CHECK(all_seen);
  CHECK(held == rounds);
}

TEST_CASE("hosts that meet in different orders are told that none can go on") {
  Hosts hosts(2);
  Meeting a, b;
  const std::string error = error_of(hosts, [&](int rank) {
    hosts.meet(
        rank == 0 ? a : b, 2, [] {}, [] {});
    hosts.meet(
        rank == 0 ? b : a, 2, [] {}, [] {});
  });
  CHECK(error.find("none can go on") != std::string::npos);
}

TEST_CASE("a host that waits for one that has ended is told so") {
  Hosts hosts(3);
  Meeting meeting;
  const std::string error = error_of(hosts, [&](int rank) {
    if (rank != 2)
      hosts.meet(
          meeting, 3, [] {}, [] {});
  });
  CHECK(error.find("none can go on") != std::string::npos);
}

TEST_CASE("when one host fails the others are woken, and its error is the run's") {
  for (const bool in_the_meeting : {false, true}) {
    CAPTURE(in_the_meeting);
    Hosts hosts(3);
    Meeting meeting;
    const std::string error = error_of(hosts, [&](int rank) {
      const auto fails = [] { throw GpuError("rank 2, backward(unit 5), alloc: no room"); };
      if (rank == 2 && !in_the_meeting) fails();
      hosts.meet(
          meeting, 3, [] {},
          [&] {
            if (in_the_meeting) fails();
          });
    });
    CHECK(error == "rank 2, backward(unit 5), alloc: no room");
  }
}

TEST_CASE("whatever comes of a rank, its end is told, and the others' too") {
  for (const bool fails : {false, true}) {
    Hosts hosts(3);
    std::atomic<int> ended = 0;
    const std::function<void(int)> body = [&](int rank) {
      if (fails && rank == 5) throw IllegalStep("rank 5, step 2: no");
      while (fails && !hosts.failed()) std::this_thread::yield();
      if (fails) throw Stopped();
    };
    try {
      hosts.run(4, nullptr, body, [&](int rank) { ended += rank; });
      CHECK_FALSE(fails);
    } catch (const IllegalStep& error) {
      CHECK(fails);
      CHECK(std::string(error.what()) == "rank 5, step 2: no");
    }
    CHECK(ended == 4 + 5 + 6);
  }
}
