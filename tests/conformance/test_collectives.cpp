// Collectives: what every fabric has to give, down to the bits, and what it has to have sent for it.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "conformance/backends.h"
#include "conformance/values.h"

using namespace shardsim;
using namespace shardsim::conformance;

namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr int worlds[] = {1, 2, 3, 4, 5, 8};
constexpr std::int64_t part_sizes[] = {0, 1, 3, 17, 64};  // elements of one member's slice

std::vector<float> summed(Dtype type, int n, std::int64_t part, int c) {
  return summed_between(type, n, c * part, (c + 1) * part, c);
}

std::vector<float> all_summed(Dtype type, int n, std::int64_t part) {
  std::vector<float> sums;
  for (int c = 0; c < n; ++c) append(sums, summed(type, n, part, c));
  return sums;
}

/// Runs `body` for every world; hands rank, world and result to `expected`.
using Expected = std::function<std::vector<float>(Dtype, int n, int me, std::int64_t part)>;
using Part = std::function<void(Device&, Fabric&, Dtype, int n, std::int64_t part, std::vector<float>&)>;
void check_everywhere(const Part& body, const Expected& expected) {
  for (const std::string& backend : backends())
    for (int world : worlds) {
      CAPTURE(backend);
      CAPTURE(world);
      const Outcome outcome = run_on(backend, world, [&](Device& device, Fabric& fabric, std::vector<float>& out) {
        for (Dtype type : {Dtype::fp32, Dtype::bf16})
          for (std::int64_t part : part_sizes) body(device, fabric, type, world, part, out);
      });
      CHECK(outcome.error == "");
      for (int rank = 0; rank < int(outcome.ranks.size()); ++rank) {
        CAPTURE(rank);
        std::vector<float> all;
        for (Dtype type : {Dtype::fp32, Dtype::bf16})
          for (std::int64_t part : part_sizes) append(all, expected(type, world, rank, part));
        CHECK(same(outcome.ranks[rank].result, all));
      }
    }
}

}  // namespace

TEST_CASE("an all-reduce leaves every rank the sum, added in the ring's order") {
  check_everywhere(
      [](Device& device, Fabric& fabric, Dtype type, int n, std::int64_t part, std::vector<float>& out) {
        const Tensor x = put(device, Lane::reduce, values(type, device.rank(), 0, n * part), type);
        fabric.all_reduce(Lane::reduce, everyone(n, device.rank()), x);
        append(out, get(device, Lane::reduce, x));
      },
      [](Dtype type, int n, int, std::int64_t part) { return all_summed(type, n, part); });
}

TEST_CASE("a reduce-scatter leaves every rank its slice of the sum") {
  check_everywhere(
      [](Device& device, Fabric& fabric, Dtype type, int n, std::int64_t part, std::vector<float>& out) {
        const Tensor x = put(device, Lane::reduce, values(type, device.rank(), 0, n * part), type);
        const Tensor slice = make(device, Lane::reduce, part, type);
        fabric.reduce_scatter(Lane::reduce, everyone(n, device.rank()), x, slice);
        append(out, get(device, Lane::reduce, slice));
      },
      [](Dtype type, int n, int me, std::int64_t part) { return summed(type, n, part, me); });
}

TEST_CASE("a reduce-scatter in place leaves the slice where it was, and NaN in the foreign slices") {
  check_everywhere(
      [](Device& device, Fabric& fabric, Dtype type, int n, std::int64_t part, std::vector<float>& out) {
        const Tensor x = put(device, Lane::reduce, values(type, device.rank(), 0, n * part), type);
        fabric.reduce_scatter(Lane::reduce, everyone(n, device.rank()), x, x.slice(dim(device.rank() * part), dim(part)));
        append(out, get(device, Lane::reduce, x));
      },
      [](Dtype type, int n, int me, std::int64_t part) {
        std::vector<float> whole(std::size_t(n * part), not_a_number);
        const auto mine = summed(type, n, part, me);
        std::copy(mine.begin(), mine.end(), whole.begin() + me * part);
        return whole;
      });
}

TEST_CASE("an all-gather leaves every rank all slices, in member order") {
  const Expected expected = [](Dtype type, int n, int, std::int64_t part) {
    std::vector<float> whole;
    for (int r = 0; r < n; ++r) append(whole, values(type, r, 0, part));
    return whole;
  };
  check_everywhere(
      [](Device& device, Fabric& fabric, Dtype type, int n, std::int64_t part, std::vector<float>& out) {
        const Tensor slice = put(device, Lane::gather, values(type, device.rank(), 0, part), type);
        const Tensor x = make(device, Lane::gather, n * part, type);
        fabric.all_gather(Lane::gather, everyone(n, device.rank()), slice, x);
        append(out, get(device, Lane::gather, x));
      },
      expected);
  SUBCASE("in place, too") {
    check_everywhere(
        [](Device& device, Fabric& fabric, Dtype type, int n, std::int64_t part, std::vector<float>& out) {
          const Tensor x = make(device, Lane::gather, n * part, type);
          const Tensor slice = x.slice(dim(device.rank() * part), dim(part));
          const std::vector<float> mine = values(type, device.rank(), 0, part);
          device.upload(Lane::gather, slice, {&mine, none, dim(part)});
          fabric.all_gather(Lane::gather, everyone(n, device.rank()), slice, x);
          append(out, get(device, Lane::gather, x));
        },
        expected);
  }
}

TEST_CASE("an all-reduce is a reduce-scatter and an all-gather, bit for bit") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const Outcome outcome = run_on(backend, 5, [](Device& device, Fabric& fabric, std::vector<float>& out) {
      const Group group = everyone(5, device.rank());
      const auto mine = values(Dtype::bf16, device.rank(), 0, 5 * 13);
      const Tensor a = put(device, Lane::compute, mine, Dtype::bf16), b = put(device, Lane::compute, mine, Dtype::bf16);
      const Tensor slice = b.slice(dim(device.rank() * 13), dim(13));
      fabric.all_reduce(Lane::compute, group, a);
      fabric.reduce_scatter(Lane::compute, group, b, slice);
      fabric.all_gather(Lane::compute, group, slice, b);
      out = {float(same(get(device, Lane::compute, a), get(device, Lane::compute, b)))};
    });
    CHECK(outcome.error == "");
    for (const auto& rank : outcome.ranks) CHECK(rank.result == std::vector<float>{1});
  }
}

TEST_CASE("a member sends (n - 1) chunks of an n-th, twice for an all-reduce, and control is counted apart") {
  for (const std::string& backend : backends())
    for (int world : worlds) {
      CAPTURE(backend);
      CAPTURE(world);
      const Outcome outcome = run_on(backend, world, [world](Device& device, Fabric& fabric, std::vector<float>&) {
        const Group group = everyone(world, device.rank());
        const Tensor x = put(device, Lane::compute, std::vector<float>(std::size_t(world) * 7, 1.f));
        const Tensor slice = x.slice(dim(device.rank() * 7), dim(7));
        const Tensor half = put(device, Lane::compute, std::vector<float>(std::size_t(world) * 5, 1.f), Dtype::bf16);
        fabric.all_reduce(Lane::compute, group, x);
        fabric.reduce_scatter(Lane::compute, group, x, slice);
        fabric.all_gather(Lane::compute, group, slice, x);
        fabric.all_reduce(Lane::compute, group, half);
        fabric.all_gather(Lane::compute, group, slice, x, Payload::control);
      });
      CHECK(outcome.error == "");
      for (const auto& rank : outcome.ranks) {
        CHECK(rank.traffic_bytes == (world - 1) * ((2 + 1 + 1) * 7 * 4 + 2 * 5 * 2));
        CHECK(rank.control_bytes == (world - 1) * 7 * 4);
      }
    }
}

TEST_CASE("without numerics a collective sends the same bytes") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const Outcome outcome = run_without_numerics(backend, 3, [](Device& device, Fabric& fabric, std::vector<float>&) {
      const Tensor x = device.alloc(Lane::reduce, Band::grad, one, Dim(3 << 20, 0), Dtype::bf16);
      fabric.all_reduce(Lane::reduce, everyone(3, device.rank()), x);
    });
    CHECK(outcome.error == "");
    for (const auto& rank : outcome.ranks) CHECK(rank.traffic_bytes == 2 * 2 * (1 << 20) * 2);
  }
}

TEST_CASE("the collectives of two streams run side by side and do not mix") {
  for (const std::string& backend : backends())
    for (int world : {2, 4, 5}) {
      CAPTURE(backend);
      CAPTURE(world);
      const Outcome outcome = run_on(backend, world, [world](Device& device, Fabric& fabric, std::vector<float>& out) {
        const Group group = everyone(world, device.rank());
        const Tensor sums = put(device, Lane::reduce, std::vector<float>(std::size_t(world), 1.f));
        const Tensor all = make(device, Lane::gather, world), mine = put(device, Lane::gather, {float(device.rank())});
        const Tensor step = put(device, Lane::gather, {10.f});
        for (int round = 0; round < 10; ++round) {
          fabric.all_gather(Lane::gather, group, mine, all);
          fabric.all_reduce(Lane::reduce, group, sums);
          device.launch(Lane::gather, Add{step, mine});
        }
        append(out, get(device, Lane::reduce, sums));
        append(out, get(device, Lane::gather, all));
      });
      CHECK(outcome.error == "");
      std::vector<float> expected(std::size_t(world), float(std::pow(world, 10)));
      for (int r = 0; r < world; ++r) expected.push_back(float(r) + 90);  // the tenth gather saw nine steps
      for (const auto& rank : outcome.ranks) CHECK(rank.result == expected);
    }
}

TEST_CASE("groups of a mesh sum for themselves: shards within a replica, replicas across") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const Outcome outcome = run_on(backend, 6, [](Device& device, Fabric& fabric, std::vector<float>& out) {
      const Mesh mesh = Mesh::of(device.rank(), 6, 3);
      const Tensor a = put(device, Lane::gather, std::vector<float>(3, std::ldexp(1.f, device.rank())));
      const Tensor b = put(device, Lane::reduce, std::vector<float>(2, std::ldexp(1.f, device.rank())));
      fabric.all_reduce(Lane::gather, mesh.shards, a);
      fabric.all_reduce(Lane::reduce, mesh.replicas, b);
      append(out, get(device, Lane::gather, a));
      append(out, get(device, Lane::reduce, b));
    });
    CHECK(outcome.error == "");
    for (int rank = 0; rank < int(outcome.ranks.size()); ++rank) {
      const float shards = rank < 3 ? 1 + 2 + 4 : 8 + 16 + 32, replicas = float((1 << rank % 3) + (8 << rank % 3));
      CHECK(outcome.ranks[rank].result == std::vector<float>{shards, shards, shards, replicas, replicas});
    }
  }
}

TEST_CASE("a group of one sends nothing and has its result where it asked for it") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const Outcome outcome = run_on(backend, 2, [](Device& device, Fabric& fabric, std::vector<float>& out) {
      const Group alone{device.rank(), 1, 1, 0};
      const Tensor x = put(device, Lane::compute, {1, 2, 3});
      const Tensor y = make(device, Lane::compute, 3), z = make(device, Lane::compute, 3);
      fabric.all_reduce(Lane::compute, alone, x);
      fabric.reduce_scatter(Lane::compute, alone, x, y);
      fabric.all_gather(Lane::compute, alone, y, z);
      append(out, get(device, Lane::compute, y));
      append(out, get(device, Lane::compute, z));
    });
    CHECK(outcome.error == "");
    for (const auto& rank : outcome.ranks) {
      CHECK(rank.result == std::vector<float>{1, 2, 3, 1, 2, 3});
      CHECK(rank.traffic_bytes == 0);
    }
  }
}

TEST_CASE("an all-reduce takes any number of elements, in chunks that differ by at most one") {
  const std::int64_t counts[] = {0, 1, 2, 3, 7, 10, 65, 67};
  for (const std::string& backend : backends())
    for (int world : worlds) {
      CAPTURE(backend);
      CAPTURE(world);
      const auto border = [world](std::int64_t count, int c) { return count * c / world; };
      const Outcome outcome = run_on(backend, world, [&](Device& device, Fabric& fabric, std::vector<float>& out) {
        for (Dtype type : {Dtype::fp32, Dtype::bf16})
          for (std::int64_t count : counts) {
            const Tensor x = put(device, Lane::reduce, values(type, device.rank(), 0, count), type);
            fabric.all_reduce(Lane::reduce, everyone(world, device.rank()), x);
            append(out, get(device, Lane::reduce, x));
          }
      });
      CHECK(outcome.error == "");
      std::vector<float> expected;
      for (Dtype type : {Dtype::fp32, Dtype::bf16})
        for (std::int64_t count : counts)
          for (int c = 0; c < world; ++c) append(expected, summed_between(type, world, border(count, c), border(count, c + 1), c));
      for (int rank = 0; rank < int(outcome.ranks.size()); ++rank) {
        CAPTURE(rank);
        CHECK(same(outcome.ranks[rank].result, expected));
        std::int64_t sent = 0;  // the sums' partials: every chunk but the rank's; the sums: every chunk but its neighbour's
        for (std::int64_t count : counts)
          for (int c = 0; c < world; ++c)
            sent += (border(count, c + 1) - border(count, c)) * ((c != rank) + (c != (rank + 1) % world)) * (4 + 2);
        CHECK(outcome.ranks[rank].traffic_bytes == sent);
      }
    }
}

TEST_CASE("without numerics an all-reduce of any number of elements sends the same bytes") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const Outcome outcome = run_without_numerics(backend, 3, [](Device& device, Fabric& fabric, std::vector<float>&) {
      const Tensor x = device.alloc(Lane::reduce, Band::grad, one, Dim(100, 0), Dtype::bf16);
      fabric.all_reduce(Lane::reduce, everyone(3, device.rank()), x);
    });
    CHECK(outcome.error == "");
    // Chunks of 33, 33 and 34 elements.
    const std::int64_t sent[] = {(67 + 67) * 2, (67 + 66) * 2, (66 + 67) * 2};
    for (int rank = 0; rank < int(outcome.ranks.size()); ++rank) CHECK(outcome.ranks[rank].traffic_bytes == sent[rank]);
  }
}

namespace {

/// A flat vector of 8 charged elements per member, of which member c's slice really has 0 to 3.
struct Twin {
  explicit Twin(int n) {
    std::vector<Dim> list{none};
    for (int c = 0; c < n; ++c) list.push_back(list.back() + Dim(8, (3 * c + 2) % 4));
    whole = list.back();
    for (int c = 0; c <= n; ++c) starts.push_back(c == 0 ? 0 : starts.back() + (3 * (c - 1) + 2) % 4);
    borders = std::make_shared<const std::vector<Dim>>(std::move(list));
  }
  Dim begin(int c) const { return (*borders)[c]; }
  Dim size(int c) const { return begin(c + 1) - begin(c); }
  Dim whole;
  std::vector<std::int64_t> starts;  ///< the borders among the real numbers
  Borders borders;
};

Tensor put_twin(Device& device, Lane lane, Dim count, const std::vector<float>& values, Dtype type) {
  const Tensor tensor = device.alloc(lane, Band::workspace, one, count, type);
  device.upload(lane, tensor, {&values, none, count});
  return tensor;
}

}  // namespace

TEST_CASE("a reduce-scatter and an all-gather with borders move slices of unequal real sizes, for equal bytes") {
  for (const std::string& backend : backends())
    for (int n : worlds) {
      CAPTURE(backend);
      CAPTURE(n);
      const Twin twin(n);
      const std::int64_t all = twin.starts.back();
      const Outcome outcome = run_on(backend, n, [&](Device& device, Fabric& fabric, std::vector<float>& out) {
        const int me = device.rank();
        const Group group = everyone(n, me);
        for (Dtype type : {Dtype::fp32, Dtype::bf16}) {
          const std::vector<float> mine = values(type, me, 0, all);
          const Tensor apart = put_twin(device, Lane::reduce, twin.whole, mine, type);
          const Tensor slice = device.alloc(Lane::reduce, Band::workspace, one, twin.size(me), type);
          fabric.reduce_scatter(Lane::reduce, group, apart, slice, Payload::data, twin.borders);
          append(out, get(device, Lane::reduce, apart));
          append(out, get(device, Lane::reduce, slice));
          const Tensor gathered = device.alloc(Lane::reduce, Band::workspace, one, twin.whole, type);
          fabric.all_gather(Lane::reduce, group, slice, gathered, Payload::data, twin.borders);
          append(out, get(device, Lane::reduce, gathered));
          // In place.
          const Tensor x = put_twin(device, Lane::reduce, twin.whole, mine, type), part = x.slice(twin.begin(me), twin.size(me));
          fabric.reduce_scatter(Lane::reduce, group, x, part, Payload::data, twin.borders);
          append(out, get(device, Lane::reduce, x));
          fabric.all_gather(Lane::reduce, group, part, x, Payload::data, twin.borders);
          append(out, get(device, Lane::reduce, x));
        }
      });
      CHECK(outcome.error == "");
      for (int rank = 0; rank < int(outcome.ranks.size()); ++rank) {
        CAPTURE(rank);
        std::vector<float> expected;
        for (Dtype type : {Dtype::fp32, Dtype::bf16}) {
          std::vector<float> sums, poisoned(std::size_t(all), not_a_number);
          for (int c = 0; c < n; ++c) append(sums, summed_between(type, n, twin.starts[c], twin.starts[c + 1], c));
          const auto mine = summed_between(type, n, twin.starts[rank], twin.starts[rank + 1], rank);
          std::copy(mine.begin(), mine.end(), poisoned.begin() + twin.starts[rank]);
          append(expected, values(type, rank, 0, all));
          append(expected, mine);
          append(expected, sums);
          append(expected, poisoned);
          append(expected, sums);
        }
        CHECK(same(outcome.ranks[rank].result, expected));
        CHECK(outcome.ranks[rank].traffic_bytes == (n - 1) * 8 * 4 * (4 + 2));
      }
    }
}
