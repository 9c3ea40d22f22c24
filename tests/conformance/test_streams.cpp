// Streams, events, memory and transfers: what every device has to do, whatever it runs on.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "conformance/backends.h"

using namespace shardsim;
using namespace shardsim::conformance;

namespace {

/// Runs the body on one rank and gives its result.
Outcome run_one(const std::string& backend, const Body& body, BackendSettings settings = {}) {
  const Outcome outcome = run_on(backend, 1, body, settings);
  CHECK(outcome.error == "");
  REQUIRE(outcome.ranks.size() == 1);
  return outcome;
}

std::vector<float> result_of(const std::string& backend, const Body& body) { return run_one(backend, body).ranks[0].result; }

Tensor element(const Tensor& vector, int at) { return vector.slice(dim(at), one); }

}  // namespace

TEST_CASE("a stream runs its operations in order") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const auto result = result_of(backend, [](Device& device, Fabric&, std::vector<float>& out) {
      const Tensor x = make(device, Lane::gather, 1), seen = make(device, Lane::gather, 50);
      for (int i = 0; i < 50; ++i) {
        device.launch(Lane::gather, Fill{x, float(i)});
        device.launch(Lane::gather, Copy{x, element(seen, i)});
      }
      out = get(device, Lane::gather, seen);
    });
    std::vector<float> expected(50);
    std::iota(expected.begin(), expected.end(), 0.f);
    CHECK(result == expected);
  }
}

TEST_CASE("a wait orders the operations of two streams") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const auto result = result_of(backend, [](Device& device, Fabric&, std::vector<float>& out) {
      const Tensor x = put(device, Lane::compute, {0}), y = make(device, Lane::compute, 1);
      const Tensor step = put(device, Lane::compute, {1});
      for (int round = 0; round < 20; ++round) {
        device.wait(Lane::reduce, device.record(Lane::compute));
        device.launch(Lane::reduce, Add{step, x});
        device.wait(Lane::compute, device.record(Lane::reduce));
        device.launch(Lane::compute, Copy{x, y});
        device.launch(Lane::compute, Add{y, x});
      }
      out = get(device, Lane::compute, x);
    });
    // x -> 2 (x + 1), twenty times from 0: 2, 6, 14, ..., 2^21 - 2. Any other order gives another number.
    CHECK(result == std::vector<float>{(1 << 21) - 2});
  }
}

TEST_CASE("an event orders the streams beyond its own through a third one") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const auto result = result_of(backend, [](Device& device, Fabric&, std::vector<float>& out) {
      const Tensor x = put(device, Lane::compute, {7}), y = make(device, Lane::reduce, 1);
      device.wait(Lane::gather, device.record(Lane::compute));
      device.wait(Lane::reduce, device.record(Lane::gather));
      device.launch(Lane::reduce, Copy{x, y});
      out = get(device, Lane::reduce, y);
    });
    CHECK(result == std::vector<float>{7});
  }
}

TEST_CASE("a wait on a past event does not block") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const auto result = result_of(backend, [](Device& device, Fabric&, std::vector<float>& out) {
      device.wait(Lane::gather, Event{});
      device.wait(Lane::gather, device.record(Lane::reduce));  // nothing was enqueued there
      const Tensor x = put(device, Lane::compute, {3});
      const Event event = device.record(Lane::compute);
      device.synchronize();
      for (int i = 0; i < 3; ++i) device.wait(Lane::gather, event);
      device.wait(Lane::compute, event);  // of its own stream
      out = get(device, Lane::gather, x);
    });
    CHECK(result == std::vector<float>{3});
  }
}

TEST_CASE("what the host enqueues after it has waited for an event comes after it, on every stream, and after nothing else") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const auto result = result_of(backend, [](Device& device, Fabric&, std::vector<float>& out) {
      const Tensor x = put(device, Lane::compute, {3}), y = put(device, Lane::compute, {4});
      device.synchronize(Event{});
      const Event event = device.record(Lane::compute);
      device.launch(Lane::compute, Scale{y, y, 2, 0});
      device.synchronize(event);
      device.synchronize(event);
      CHECK_THROWS_WITH(device.launch(Lane::gather, Copy{y, x}), doctest::Contains("missing edge"));
      const Tensor seen = make(device, Lane::reduce, 1);
      device.launch(Lane::reduce, Copy{x, seen});
      out = get(device, Lane::reduce, seen);
    });
    CHECK(result == std::vector<float>{3});
  }
}

TEST_CASE("a host that runs far ahead of its streams loses nothing") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const auto result = result_of(backend, [](Device& device, Fabric&, std::vector<float>& out) {
      const Tensor x = put(device, Lane::compute, {0}), step = put(device, Lane::compute, {1});
      for (int i = 0; i < 5000; ++i) device.launch(Lane::compute, Add{step, x});
      out = get(device, Lane::compute, x);
    });
    CHECK(result == std::vector<float>{5000});
  }
}

TEST_CASE("new memory can be used at once and holds NaN") {
  for (const std::string& backend : backends())
    for (std::int64_t size : {0, 1, 3, 17, 64}) {
      CAPTURE(backend);
      CAPTURE(size);
      const auto result = result_of(backend, [&](Device& device, Fabric&, std::vector<float>& out) {
        for (Dtype type : {Dtype::fp32, Dtype::bf16})
          append(out, get(device, Lane::gather, make(device, Lane::gather, size, type)));
      });
      CHECK(same(result, std::vector<float>(std::size_t(2 * size), std::numeric_limits<float>::quiet_NaN())));
    }
}

TEST_CASE("what lies in an arena is not charged beside it, and is memory like any other") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const Outcome outcome = run_one(backend, [](Device& device, Fabric&, std::vector<float>& out) {
      device.place_in(device.alloc(Lane::compute, Band::activation, one, Dim(1000, 0), Dtype::uint8));
      const Tensor kept = device.alloc(Lane::compute, Band::activation, one, dim(100), Dtype::fp32);
      const Tensor state = device.alloc(Lane::compute, Band::opt, one, dim(10), Dtype::fp32);
      device.launch(Lane::compute, Fill{kept, 2.f});
      device.launch(Lane::compute, Copy{kept.slice(none, dim(10)), state});
      device.free(Lane::compute, kept);
      out = get(device, Lane::compute, state);
    });
    CHECK(outcome.ranks[0].result == std::vector<float>(10, 2.f));
    CHECK(outcome.ranks[0].peak_bytes == 1000 + 40);
    CHECK(outcome.ranks[0].held_bytes == 1000 + 40);
  }
}

TEST_CASE("freed memory leaves the ledger when its stream gets there, and can be had again") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const Outcome outcome = run_one(backend, [](Device& device, Fabric&, std::vector<float>& out) {
      const Tensor seen = make(device, Lane::compute, 40);  // 160 bytes, kept
      for (int i = 0; i < 40; ++i) {
        const Tensor x = make(device, Lane::compute, 16);  // 64 bytes, one at a time
        device.launch(Lane::compute, Fill{x, float(i)});
        device.launch(Lane::compute, Copy{element(x, 15), element(seen, i)});
        device.free(Lane::compute, x);
        if (i == 20) device.synchronize();
      }
      out = get(device, Lane::compute, seen);
    });
    std::vector<float> expected(40);
    std::iota(expected.begin(), expected.end(), 0.f);
    CHECK(outcome.ranks[0].result == expected);
    CHECK(outcome.ranks[0].held_bytes == 160);
    CHECK(outcome.ranks[0].peak_bytes == 160 + 64);
  }
}

TEST_CASE("memory is charged in the width of its type") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const Outcome outcome = run_one(backend, [](Device& device, Fabric&, std::vector<float>&) {
      device.alloc(Lane::compute, Band::param, dim(3), dim(5), Dtype::bf16);
      device.alloc(Lane::reduce, Band::opt, dim(3), dim(5), Dtype::fp32);
    });
    CHECK(outcome.ranks[0].held_bytes == 15 * 2 + 15 * 4);
  }
}

TEST_CASE("an upload comes back from a download, and the rest is cleared") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const auto result = result_of(backend, [](Device& device, Fabric&, std::vector<float>& out) {
      const Tensor x = make(device, Lane::compute, 6);
      std::vector<float> host = {9, 1, 2, 3, 9};
      device.upload(Lane::compute, x, {&host, dim(1), dim(3)});
      host.assign(5, -1.f);  // read at once: too late to matter
      append(out, get(device, Lane::compute, x));
      device.upload(Lane::compute, x, {&host, none, none});
      append(out, get(device, Lane::compute, x));
    });
    CHECK(result == std::vector<float>{1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  }
}

TEST_CASE("an upload and a download of a slice leave its neighbours alone") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const auto result = result_of(backend, [](Device& device, Fabric&, std::vector<float>& out) {
      const Tensor x = put(device, Lane::compute, {1, 2, 3, 4, 5});
      const std::vector<float> host = {8, 9};
      device.upload(Lane::compute, x.slice(dim(1), dim(2)), {&host, none, dim(2)});
      append(out, get(device, Lane::compute, x.slice(dim(2), dim(2))));
      append(out, get(device, Lane::compute, x));
    });
    CHECK(result == std::vector<float>{9, 4, 1, 8, 9, 4, 5});
  }
}

TEST_CASE("an upload to bf16 is rounded, ties to even") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const auto result = result_of(backend, [](Device& device, Fabric&, std::vector<float>& out) {
      // Between 1 and 2 a bf16 has steps of 1/128.
      const std::vector<float> host = {1 + 1 / 256.f, 1 + 3 / 256.f, 1 + 1 / 512.f, -3.f};
      out = get(device, Lane::compute, put(device, Lane::compute, host, Dtype::bf16));
    });
    CHECK(result == std::vector<float>{1, 1 + 4 / 256.f, 1, -3});
  }
}

TEST_CASE("dates never go back, along a stream and through events") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const auto result = result_of(backend, [](Device& device, Fabric&, std::vector<float>& out) {
      const double before = device.now();
      double first = -1, second = -1, other = -1;
      const Tensor x = put(device, Lane::compute, std::vector<float>(1000, 1.f));
      device.stamp(Lane::compute, first);
      for (int i = 0; i < 20; ++i) device.launch(Lane::compute, Fill{x, 1});
      device.stamp(Lane::compute, second);
      device.wait(Lane::gather, device.record(Lane::compute));
      device.stamp(Lane::gather, other);
      device.synchronize();
      const double dates[] = {0, before, first, second, other, device.now()};
      for (int i = 0; i < 5; ++i) out.push_back(dates[i] <= dates[i + 1]);
    });
    CHECK(result == std::vector<float>{1, 1, 1, 1, 1});
  }
}

TEST_CASE("without numerics nothing has numbers, but everything has bytes") {
  BackendSettings settings;
  settings.numerics = false;
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const Outcome outcome = run_one(
        backend,
        [](Device& device, Fabric&, std::vector<float>& out) {
          const std::vector<float> nothing;
          const Tensor x = device.alloc(Lane::compute, Band::param, one, Dim(1 << 30, 0), Dtype::fp32);
          device.upload(Lane::compute, x, {&nothing, none, Dim(1 << 30, 0)});
          device.launch(Lane::compute, Fill{x, 1});
          out = get(device, Lane::compute, x);
        },
        settings);
    CHECK(outcome.ranks[0].result.empty());
    CHECK(outcome.ranks[0].held_bytes == std::int64_t(4) << 30);
  }
}

TEST_CASE("memory of the host has a ledger of its own, and what crosses the link is counted by its direction") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const Outcome outcome = run_one(backend, [](Device& device, Fabric&, std::vector<float>& out) {
      const Tensor here = put(device, Lane::compute, {1, 2, 3, 4});
      const Tensor there = device.alloc(Lane::compute, Band::opt, one, dim(4), Dtype::fp32, Place::host);
      device.launch(Lane::compute, Copy{here, there});
      device.launch(Lane::compute, Scale{there, there, 2, 0});
      device.launch(Lane::compute, Copy{there.slice(dim(1), dim(2)), here.slice(dim(1), dim(2))});
      const std::vector<float> values = get(device, Lane::compute, here);
      out = {float(device.host_ledger().held()), float(device.crossed().to_host), float(device.crossed().to_device)};
      device.free(Lane::compute, there);
      device.synchronize();
      append(out, {float(device.host_ledger().held()), float(device.host_ledger().peak().of(Band::opt))});
      append(out, values);
    });
    CHECK(outcome.ranks[0].result == std::vector<float>{16, 16, 8, 0, 16, 1, 4, 6, 4});
    CHECK(outcome.ranks[0].peak_bytes == 16);  // the GPU's alone
  }
}
