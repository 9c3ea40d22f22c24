// All-to-all: what every member gets from every other, what each sends for it, and what is refused.
#include <doctest/doctest.h>

#include <memory>

#include "conformance/each_size.h"
#include "conformance/values.h"

using namespace shardsim;
using namespace shardsim::conformance;

namespace {

constexpr int worlds[] = {1, 2, 3, 5, 8};
constexpr std::int64_t part_sizes[] = {0, 1, 3, 64};  // elements of a slice

/// The error of two ranks that exchange `from` elements into `to` ones.
std::string error_of(const std::string& backend, std::int64_t from, std::int64_t to, bool in_place = false) {
  return run_on(backend, 2,
                [=](Device& device, Fabric& fabric, std::vector<float>&) {
                  const Tensor x = make(device, Lane::reduce, from), y = in_place ? x : make(device, Lane::reduce, to);
                  fabric.all_to_all(Lane::reduce, everyone(2, device.rank()), x, y);
                })
      .error;
}

}  // namespace

TEST_CASE("an all-to-all hands slice j of everyone to member j, in member order, and leaves what was sent alone") {
  for (const std::string& backend : backends())
    for (const int n : worlds)
      check_each_size(backend, n, part_sizes,
                      {[=](Device& device, Fabric& fabric, Dtype type, std::int64_t part, std::vector<float>& out) {
                         const Tensor from = put(device, Lane::reduce, values(type, device.rank(), 0, n * part), type);
                         const Tensor to = make(device, Lane::reduce, n * part, type);
                         fabric.all_to_all(Lane::reduce, everyone(n, device.rank()), from, to);
                         append(out, get(device, Lane::reduce, to));
                         append(out, get(device, Lane::reduce, from));
                       },
                       [=](Dtype type, int rank, std::int64_t part) {
                         std::vector<float> expected;
                         for (int member = 0; member < n; ++member) append(expected, values(type, member, rank * part, part));
                         append(expected, values(type, rank, 0, n * part));
                         return expected;
                       },
                       [=](int, std::int64_t part) { return (n - 1) * part; }});
}

TEST_CASE("an all-to-all with borders moves slices of unequal real sizes, for equal bytes") {
  for (const std::string& backend : backends())
    for (const int n : worlds) {
      CAPTURE(backend);
      CAPTURE(n);
      // Eight elements are charged per slice, of which the one for member c really has 0 to 3.
      const auto real = [](int c) { return std::int64_t((3 * c + 2) % 4); };
      std::vector<Dim> list{none};
      std::vector<std::int64_t> starts{0};
      for (int c = 0; c < n; ++c) list.push_back(list.back() + Dim(8, real(c))), starts.push_back(starts.back() + real(c));
      const Borders borders = std::make_shared<const std::vector<Dim>>(list);
      const Outcome outcome = run_on(backend, n, [&](Device& device, Fabric& fabric, std::vector<float>& out) {
        const int me = device.rank();
        const Tensor from = device.alloc(Lane::reduce, Band::workspace, one, list.back(), Dtype::bf16);
        const std::vector<float> mine = values(Dtype::bf16, me, 0, starts.back());
        device.upload(Lane::reduce, from, {&mine, none, list.back()});
        const Tensor to = device.alloc(Lane::reduce, Band::workspace, one, Dim(8 * n, n * real(me)), Dtype::bf16);
        fabric.all_to_all(Lane::reduce, everyone(n, me), from, to, Payload::data, borders);
        append(out, get(device, Lane::reduce, to));
      });
      CHECK(outcome.error == "");
      for (int rank = 0; rank < int(outcome.ranks.size()); ++rank) {
        CAPTURE(rank);
        std::vector<float> expected;
        for (int member = 0; member < n; ++member)
          append(expected, values(Dtype::bf16, member, starts[std::size_t(rank)], real(rank)));
        CHECK(same(outcome.ranks[rank].result, expected));
        CHECK(outcome.ranks[rank].traffic_bytes == (n - 1) * 8 * 2);
      }
    }
}

TEST_CASE("two all-to-alls, within a node and across nodes, bring each rank its piece of everyone's") {
  // Two nodes of three. Element 10 s + d is what rank s has for rank d, laid out by the receiver's place in its node.
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const Outcome outcome = run_on(backend, 6, [](Device& device, Fabric& fabric, std::vector<float>& out) {
      const Mesh mesh = Mesh::of(device.rank(), 6, 3);
      std::vector<float> mine;
      for (int place = 0; place < 3; ++place)
        for (int node = 0; node < 2; ++node) mine.push_back(float(10 * device.rank() + 3 * node + place));
      const Tensor a = put(device, Lane::reduce, mine), b = make(device, Lane::reduce, 6);
      fabric.all_to_all(Lane::reduce, mesh.shards, a, b);
      for (int place = 0; place < 3; ++place) {
        const Tensor ours = b.slice(dim(2 * place), dim(2)), theirs = make(device, Lane::reduce, 2);
        fabric.all_to_all(Lane::reduce, mesh.replicas, ours, theirs, Payload::control);
        append(out, get(device, Lane::reduce, theirs));
      }
    });
    CHECK(outcome.error == "");
    for (int rank = 0; rank < int(outcome.ranks.size()); ++rank) {
      std::vector<float> expected;
      for (int place = 0; place < 3; ++place)
        for (int node = 0; node < 2; ++node) expected.push_back(float(10 * (3 * node + place) + rank));
      CHECK(outcome.ranks[rank].result == expected);
      CHECK(outcome.ranks[rank].traffic_bytes == 2 * 2 * 4);
      CHECK(outcome.ranks[rank].control_bytes == 3 * 4);
    }
  }
}

TEST_CASE("without numerics an all-to-all sends the same bytes") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const Outcome outcome = run_without_numerics(backend, 3, [](Device& device, Fabric& fabric, std::vector<float>&) {
      const Tensor x = device.alloc(Lane::reduce, Band::grad, one, Dim(300, 0), Dtype::bf16);
      const Tensor y = device.alloc(Lane::reduce, Band::grad, one, Dim(300, 0), Dtype::bf16);
      fabric.all_to_all(Lane::reduce, everyone(3, device.rank()), x, y);
    });
    CHECK(outcome.error == "");
    for (const auto& rank : outcome.ranks) CHECK(rank.traffic_bytes == 2 * 100 * 2);
  }
}

TEST_CASE("an all-to-all in place, of unequal buffers or of what the group does not divide is refused") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    CHECK(error_of(backend, 4, 4) == "");
    CHECK(error_of(backend, 4, 4, true).find("all_to_all(unit -1): needs two buffers") != std::string::npos);
    CHECK(error_of(backend, 4, 6).find("the two buffers differ in size or type") != std::string::npos);
    CHECK(error_of(backend, 5, 5).find("do not fit 2 ranks") != std::string::npos);
  }
}

TEST_CASE("what an all-to-all sends has to be there, and what it brings may not be used before it is over") {
  for (const std::string& backend : backends())
    for (const bool before : {true, false}) {
      CAPTURE(backend);
      CAPTURE(before);
      const auto error = [&](bool waits) {
        return run_on(backend, 2,
                      [&](Device& device, Fabric& fabric, std::vector<float>&) {
                        const Tensor x = put(device, Lane::compute, {1, 2}), y = make(device, Lane::compute, 2);
                        if (waits || !before) device.wait(Lane::reduce, device.record(Lane::compute));
                        fabric.all_to_all(Lane::reduce, everyone(2, device.rank()), x, y);
                        if (waits || before) device.wait(Lane::compute, device.record(Lane::reduce));
                        device.launch(Lane::compute, Add{y, x});
                        device.synchronize();
                      })
            .error;
      };
      CHECK(error(true) == "");
      CHECK(error(false).find("all_to_all") != std::string::npos);
    }
}
