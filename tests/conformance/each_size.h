// A collective of each type and of each size, one after the other: what every rank has afterwards, and what it has sent.
#pragma once
#include <doctest/doctest.h>

#include <functional>
#include <vector>

#include "conformance/backends.h"

namespace shardsim::conformance {

struct Exchange {
  /// Issues it, and appends what is to be looked at.
  std::function<void(Device&, Fabric&, Dtype, std::int64_t size, std::vector<float>& out)> issue;
  /// What a rank has to find there.
  std::function<std::vector<float>(Dtype, int rank, std::int64_t size)> result;
  /// Elements that a rank sends.
  std::function<std::int64_t(int rank, std::int64_t size)> sent;
};

template <std::size_t n>
void check_each_size(const std::string& backend, int world, const std::int64_t (&sizes)[n], const Exchange& exchange) {
  CAPTURE(backend);
  CAPTURE(world);
  const auto for_each = [&sizes](const auto& f) {
    for (const Dtype type : {Dtype::fp32, Dtype::bf16})
      for (const std::int64_t size : sizes) f(type, size);
  };
  const Outcome outcome = run_on(backend, world, [&](Device& device, Fabric& fabric, std::vector<float>& out) {
    for_each([&](Dtype type, std::int64_t size) { exchange.issue(device, fabric, type, size, out); });
  });
  CHECK(outcome.error == "");
  for (int rank = 0; rank < int(outcome.ranks.size()); ++rank) {
    CAPTURE(rank);
    std::vector<float> expected;
    std::int64_t sent = 0;
    for_each([&](Dtype type, std::int64_t size) {
      append(expected, exchange.result(type, rank, size));
      sent += exchange.sent(rank, size) * bytes_of(type);
    });
    CHECK(same(outcome.ranks[rank].result, expected));
    CHECK(outcome.ranks[rank].traffic_bytes == sent);
  }
}

}  // namespace shardsim::conformance
