// Meetings of loopback's hosts: nobody leaves early, and whoever waits in vain is told.
#include <doctest/doctest.h>

#include <stdexcept>
#include <thread>
#include <vector>

#include "backends/cuda/errors.h"
#include "backends/cuda/hosts.h"

using namespace shardsim;
using namespace shardsim::cuda;

namespace {

/// Runs body(rank) on a thread each, as the backend does, and gives the message of the first error.
template <class F>
std::string error_of(Hosts& hosts, int world, F body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(rank);
        hosts.finish();
      } catch (const Stopped&) {
        hosts.fail({});
      } catch (...) {
        hosts.fail(std::current_exception());
      }
    });
  for (std::thread& thread : threads) thread.join();
  try {
    if (hosts.error()) std::rethrow_exception(hosts.error());
  } catch (const std::exception& error) {
    return error.what();
  }
  return hosts.failed() ? "failed without an error" : "";
}

}  // namespace

TEST_CASE("a meeting is held when all are there, by the last to come, and nobody leaves before") {
  constexpr int world = 4, rounds = 200;
  Hosts hosts(world);
  Meeting meeting;
  std::vector<int> here(world, 0);
  int held = 0;
  bool all_seen = true;
  const std::string error = error_of(hosts, world, [&](int rank) {
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
  const std::string error = error_of(hosts, 2, [&](int rank) {
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
  const std::string error = error_of(hosts, 3, [&](int rank) {
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
    const std::string error = error_of(hosts, 3, [&](int rank) {
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
