// Reduce and broadcast: what they leave at the root and at the others, what each member sends, and what is refused.
#include <doctest/doctest.h>

#include "conformance/each_size.h"
#include "conformance/values.h"

using namespace shardsim;
using namespace shardsim::conformance;

namespace {

constexpr int worlds[] = {1, 2, 3, 5, 8};
constexpr std::int64_t counts[] = {0, 1, 7, 64, 600'001};  // the last one takes several pieces in fp32 and in bf16

}  // namespace

TEST_CASE("a reduce leaves the root the sum, added from its right neighbour around to itself, and the others what they had") {
  for (const std::string& backend : backends())
    for (const int n : worlds)
      for (const bool in_place : {true, false}) {
        CAPTURE(in_place);
        const int root = n / 2;
        check_each_size(
            backend, n, counts,
            {[=](Device& device, Fabric& fabric, Dtype type, std::int64_t count, std::vector<float>& out) {
               const Tensor from = put(device, Lane::reduce, values(type, device.rank(), 0, count), type);
               const Tensor to = in_place ? from : device.rank() == root ? make(device, Lane::reduce, count, type) : Tensor{};
               fabric.reduce(Lane::reduce, everyone(n, device.rank()), from, to, root);
               append(out, get(device, Lane::reduce, to ? to : from));
             },
             [=](Dtype type, int rank, std::int64_t count) {
               return rank == root ? summed_between(type, n, 0, count, root) : values(type, rank, 0, count);
             },
             [=](int rank, std::int64_t count) { return rank == root ? 0 : count; }});
      }
}

TEST_CASE("a broadcast leaves everyone the root's numbers; all but the member before the root send them on") {
  for (const std::string& backend : backends())
    for (const int n : worlds) {
      const int root = (n - 1) / 2, last = (root + n - 1) % n;
      check_each_size(backend, n, counts,
                      {[=](Device& device, Fabric& fabric, Dtype type, std::int64_t count, std::vector<float>& out) {
                         const Tensor x = put(device, Lane::gather, values(type, device.rank(), 0, count), type);
                         fabric.broadcast(Lane::gather, everyone(n, device.rank()), x, root);
                         append(out, get(device, Lane::gather, x));
                       },
                       [=](Dtype type, int, std::int64_t count) { return values(type, root, 0, count); },
                       [=](int rank, std::int64_t count) { return rank == last ? 0 : count; }});
    }
}

TEST_CASE("a reduce to every owner of a slice in turn is a reduce-scatter, bit for bit") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const Outcome outcome = run_on(backend, 5, [](Device& device, Fabric& fabric, std::vector<float>& out) {
      const Group group = everyone(5, device.rank());
      const auto mine = values(Dtype::bf16, device.rank(), 0, 5 * 13);
      const Tensor a = put(device, Lane::compute, mine, Dtype::bf16), b = put(device, Lane::compute, mine, Dtype::bf16);
      const Tensor slice = make(device, Lane::compute, 13, Dtype::bf16);
      fabric.reduce_scatter(Lane::compute, group, a, slice);
      for (int root = 0; root < 5; ++root) {
        const Tensor part = b.slice(dim(root * 13), dim(13));
        fabric.reduce(Lane::compute, group, part, part, root);
      }
      out = {float(same(get(device, Lane::compute, slice), get(device, Lane::compute, b.slice(dim(device.rank() * 13), dim(13)))))};
    });
    CHECK(outcome.error == "");
    for (const auto& rank : outcome.ranks) CHECK(rank.result == std::vector<float>{1});
  }
}

TEST_CASE("ranks that name different roots, and roots outside of the group, are refused") {
  for (const std::string& backend : backends()) {
    CAPTURE(backend);
    const auto error_of = [&](int root_of_rank_1) {
      return run_on(backend, 2,
                    [&](Device& device, Fabric& fabric, std::vector<float>&) {
                      const Tensor x = put(device, Lane::gather, {1, 2, 3});
                      fabric.broadcast(Lane::gather, everyone(2, device.rank()), x, device.rank() == 1 ? root_of_rank_1 : 0);
                    })
          .error;
    };
    CHECK(error_of(0) == "");
    CHECK(error_of(1).find("broadcast() with root 1 of 12 bytes") != std::string::npos);
    CHECK(error_of(2).find("root 2 is no member of a group of 2") != std::string::npos);
  }
}
