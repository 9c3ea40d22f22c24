// What only the threads backend has: a queue of a certain depth, a host that never waits, threads that start and end.
#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>

#include "backends/threads/backend.h"
#include "core/error.h"

using namespace shardsim;

namespace {

constexpr Dim four(4, 4);

}  // namespace

TEST_CASE("a program that never waits can free memory for ever") {
  ThreadsBackend backend(BackendSettings{});
  backend.run(1, [](Device& device, Fabric&) {
    for (int i = 0; i < 150'000; ++i) {
      const Tensor x = device.alloc(Lane::compute, Band::workspace, one, four, Dtype::fp32);
      device.free(Lane::compute, x);
    }
  });
  CHECK(backend.device(0).ledger().held() == 0);
  CHECK(backend.device(0).ledger().peak().bytes == 16);
  CHECK(backend.device(0).ledger().entries().size() == 300'000);
}

TEST_CASE("a host is at most 1,024 operations ahead of a stream") {
  ThreadsBackend backend(BackendSettings{});
  std::atomic<int> issued = 0;
  int issued_before_meeting = 0;
  backend.run(2, [&](Device& device, Fabric& fabric) {
    const Tensor x = device.alloc(Lane::compute, Band::workspace, one, four, Dtype::fp32);
    const Group group{0, 1, 2, device.rank()};
    if (device.rank() == 0) {
      fabric.all_reduce(Lane::compute, group, x);  // holds the stream until rank 1 comes
      for (int i = 0; i < 2000; ++i, ++issued) device.launch(Lane::compute, Fill{x, 1});
    } else {
      while (issued < 1000) std::this_thread::yield();
      issued_before_meeting = issued;
      fabric.all_reduce(Lane::compute, group, x);
    }
  });
  CHECK(issued == 2000);
  CHECK(issued_before_meeting >= 1000);
  CHECK(issued_before_meeting <= 1023);  // behind the all-reduce that holds them
}

TEST_CASE("an event of another device is refused, for it might never come") {
  ThreadsBackend backend(BackendSettings{});
  CHECK_THROWS_AS(backend.run(1, [](Device& device, Fabric&) { device.wait(Lane::gather, Event{Lane::compute, 5}); }), IllegalStep);
}

TEST_CASE("what was enqueued outlives the fabric, which goes first when a body throws") {
  threads::Alarm alarm;
  IssueOrder order;
  threads::Communicators communicators;
  threads::ThreadsDevice device(0, BackendSettings{}, std::chrono::steady_clock::now(), alarm);
  const Tensor x = device.alloc(Lane::compute, Band::workspace, one, four, Dtype::fp32);
  std::atomic<bool> fabric_gone = false;
  const Span span{0, 0, 0, 0, 0, Lane::compute, Verb::forward, 0, false};
  device.enqueue_span(span, [&fabric_gone] {
    while (!fabric_gone) std::this_thread::yield();
    return std::int64_t(0);
  });
  {
    threads::ThreadsFabric fabric(device, order, communicators, alarm);
    fabric.all_reduce(Lane::compute, {0, 1, 1, 0}, x);
  }
  fabric_gone = true;
  device.synchronize();
  CHECK(device.recorder().spans().size() == 2);
  CHECK(alarm.error() == nullptr);
}

TEST_CASE("a backend runs once, on one rank or more") {
  ThreadsBackend none(BackendSettings{}), twice(BackendSettings{});
  const Backend::Body nothing = [](Device&, Fabric&) {};
  CHECK_THROWS_AS(none.run(0, nothing), std::logic_error);
  twice.run(1, nothing);
  CHECK_THROWS_AS(twice.run(1, nothing), std::logic_error);
}

TEST_CASE("a rank that fails far ahead of a stuck stream is the one that is reported") {
  ThreadsBackend backend(BackendSettings{});
  CHECK_THROWS_WITH(backend.run(2,
                                [](Device& device, Fabric& fabric) {
                                  if (device.rank() == 1) throw std::runtime_error("rank 1 never comes");
                                  const Tensor x = device.alloc(Lane::compute, Band::workspace, one, four, Dtype::fp32);
                                  fabric.all_reduce(Lane::compute, {0, 1, 2, 0}, x);
                                  for (int i = 0; i < 5000; ++i) device.launch(Lane::compute, Fill{x, 1});
                                }),
                    "rank 1 never comes");
}
