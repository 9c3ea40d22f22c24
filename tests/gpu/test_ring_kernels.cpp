// Loopback's kernels, carried out on the host: the bits of every collective are those of the ring on the host backends.
#include <doctest/doctest.h>

#include <vector>

#include "gpu/run_kernels.h"
#include "numerics/buffer.h"
#include "numerics/ring.h"

using namespace shardsim;
using namespace shardsim::numerics_tests;

namespace {

/// The members of a collective with buffers of `count` numbers each, as large as the verb allows.
std::vector<Collective> members_of(Workbench& bench, Verb verb, int n, std::int64_t count, Dtype type, bool in_place) {
  std::vector<Collective> members;
  for (int r = 0; r < n; ++r) {
    const bool sliced = verb == Verb::reduce_scatter || verb == Verb::all_gather || verb == Verb::all_to_all;
    const std::int64_t part = (count + n - 1) / n, size = sliced ? part * n : count;
    const Tensor whole = bench.vector(size, type);
    const Tensor slice = in_place ? whole.slice(dim(r * part), dim(part)) : bench.vector(part, type);
    Tensor from = whole, to = whole;
    if (verb == Verb::reduce_scatter) to = slice;
    if (verb == Verb::all_gather) from = slice;
    if (verb == Verb::all_to_all) to = bench.vector(size, type);
    members.push_back({verb, Lane::compute, {0, 1, n, r}, from, to, Payload::data, {}, {}, n / 2});
  }
  return members;
}

}  // namespace

TEST_CASE("loopback moves the bits that the ring moves, for every collective, world, type and size, in place and not") {
  for (const Verb verb : collective_verbs)
    for (const int n : {1, 2, 3, 5, 8})
      for (const Dtype type : {Dtype::fp32, Dtype::bf16, Dtype::fp16})
        for (const std::int64_t count : {0, 1, 7, 64, 1000})
          for (const bool in_place : {false, true}) {
            CAPTURE(name_of(verb));
            CAPTURE(n);
            CAPTURE(name_of(type));
            CAPTURE(count);
            CAPTURE(in_place);
            Workbench on_card(3), on_host(3);
            gpu_tests::run_kernels(members_of(on_card, verb, n, count, type, in_place));
            numerics::move_in_ring_order(members_of(on_host, verb, n, count, type, in_place));
            CHECK(on_card.bits() == on_host.bits());
          }
}
