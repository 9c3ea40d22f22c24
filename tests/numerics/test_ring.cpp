// The order in which a ring adds: stated in numbers whose sum depends on it.
#include <doctest/doctest.h>

#include <deque>

#include "core/error.h"
#include "numerics/buffer.h"
#include "numerics/ring.h"

using namespace shardsim;
using namespace shardsim::numerics_tests;

namespace {

/// All members of a collective, with their buffers.
struct Ring {
  explicit Ring(int n) : n(n) {}
  void join(Verb verb, Tensor from, Tensor to, Borders borders = {}) {
    members.push_back({verb, Lane::compute, {0, 1, n, int(members.size())}, from, to, Payload::data, {}, borders});
  }
  void move() const { numerics::move_in_ring_order(members); }
  int n;
  Workbench bench;
  std::vector<Collective> members;
};

}  // namespace

TEST_CASE("chunk c is summed from member c + 1 around to member c") {
  // Member 0 gives 2^24, the others 1 each. In fp32, 2^24 + 1 = 2^24: ones count only when they come before it.
  Ring ring(4);
  for (int r = 0; r < 4; ++r) {
    const Tensor x = ring.bench.vector(std::vector<float>(4, r == 0 ? float(1 << 24) : 1.f));
    ring.join(Verb::all_reduce, x, x);
  }
  ring.move();
  // Chunk 0, members 1, 2, 3, 0: 3 + 2^24, half way, is 2^24 + 4 (even). Chunk 1, members 2, 3, 0, 1: 2^24 + 2, and 1 more is half
  // way again. Chunk 2, members 3, 0, 1, 2: 1 + 2^24, half way, is 2^24, twice. Chunk 3, members 0, 1, 2, 3: 2^24 first.
  const float big = 1 << 24;
  for (const Collective& member : ring.members) CHECK(values(member.to) == std::vector<float>{big + 4, big + 4, big, big});
}

TEST_CASE("a bf16 sum is rounded at every hop") {
  // From 256 on, bf16 has steps of 2: 257 is half way and becomes 256, 259 becomes 260 (even).
  Ring ring(4);
  for (int r = 0; r < 4; ++r) {
    const Tensor x = ring.bench.vector(std::vector<float>(4, r == 1 ? 256.f : 1.f), Dtype::bf16);
    ring.join(Verb::all_reduce, x, x);
  }
  ring.move();
  // Chunk 0: 256 first, all ones are lost. Chunk 1: 3 + 256. Chunk 2: 2 + 256 = 258, 259. Chunk 3: 1 + 256, the others are lost.
  for (const Collective& member : ring.members) CHECK(values(member.to) == std::vector<float>{256, 260, 260, 256});
}

TEST_CASE("a reduce-scatter in place keeps the slice and poisons the rest; out of place it leaves the buffer alone") {
  for (bool in_place : {true, false}) {
    CAPTURE(in_place);
    Ring ring(3);
    std::vector<Tensor> buffers;
    for (int r = 0; r < 3; ++r) {
      buffers.push_back(ring.bench.vector({1.f, 2, 10, 20, 100, 200}));
      ring.join(Verb::reduce_scatter, buffers[r], in_place ? buffers[r].slice(dim(2 * r), dim(2)) : ring.bench.vector(2));
    }
    ring.move();
    const float sums[] = {3, 6, 30, 60, 300, 600};
    for (int r = 0; r < 3; ++r) {
      CHECK(values(ring.members[r].to) == std::vector<float>{sums[2 * r], sums[2 * r + 1]});
      const auto whole = values(buffers[r]);
      for (int i = 0; i < 6; ++i)
        if (!in_place) CHECK(whole[i] == sums[i] / 3);
        else if (i / 2 != r) CHECK(std::isnan(whole[i]));
    }
  }
}

TEST_CASE("an all-gather puts every member's part in its place") {
  Ring ring(3);
  for (int r = 0; r < 3; ++r) ring.join(Verb::all_gather, ring.bench.vector({float(r), float(-r)}), ring.bench.vector(6));
  ring.move();
  for (const Collective& member : ring.members) CHECK(values(member.to) == std::vector<float>{0, 0, 1, -1, 2, -2});
}

TEST_CASE("an all-to-all puts what member r has for c where c keeps what comes from r") {
  Ring ring(3);
  for (int r = 0; r < 3; ++r)
    ring.join(Verb::all_to_all, ring.bench.vector({float(10 * r), float(10 * r + 1), float(10 * r + 2)}), ring.bench.vector(3));
  ring.move();
  for (int c = 0; c < 3; ++c) CHECK(values(ring.members[c].to) == std::vector<float>{float(c), float(10 + c), float(20 + c)});
}

TEST_CASE("a ring of one copies, and an empty buffer stays empty") {
  Ring alone(1);
  const Tensor from = alone.bench.vector({4.f, 5}), to = alone.bench.vector(2);
  alone.join(Verb::reduce_scatter, from, to);
  alone.move();
  CHECK(values(to) == std::vector<float>{4, 5});
  CHECK(values(from) == std::vector<float>{4, 5});
  for (Verb verb : {Verb::all_reduce, Verb::reduce_scatter, Verb::all_gather}) {
    Ring empty(3);
    for (int r = 0; r < 3; ++r) empty.join(verb, Tensor(empty.bench.vector(0)), empty.bench.vector(0));
    empty.move();
    CHECK(empty.bench.margins_untouched());
  }
}

TEST_CASE("where the members do not divide a buffer, the last chunks are the larger ones") {
  // Member 0 gives 2^24, the others 1 each: ones count only when they come before it, in chunk 0 (twice in fp32's steps of 2).
  Ring ring(3);
  for (int r = 0; r < 3; ++r) {
    const Tensor x = ring.bench.vector(std::vector<float>(5, r == 0 ? float(1 << 24) : 1.f));
    ring.join(Verb::all_reduce, x, x);
  }
  ring.move();
  // Chunks of 1, 2 and 2 floats. Chunk 0, members 1, 2, 0: 2 + 2^24. Chunk 1, members 2, 0, 1: 1 + 2^24, half way, twice.
  const float big = 1 << 24;
  for (const Collective& member : ring.members) CHECK(values(member.to) == std::vector<float>{big + 2, big, big, big, big});
}

TEST_CASE("borders cut a buffer where they say, also into empty slices") {
  const Borders borders = std::make_shared<const std::vector<Dim>>(std::vector<Dim>{dim(0), dim(1), dim(1), dim(4)});
  const Dim sizes[] = {dim(1), dim(0), dim(3)}, begins[] = {dim(0), dim(1), dim(1)};
  for (bool in_place : {true, false}) {
    CAPTURE(in_place);
    Ring reduced(3), gathered(3);
    std::vector<Tensor> buffers;
    for (int r = 0; r < 3; ++r) {
      buffers.push_back(reduced.bench.vector({1, 10, 100, 1000}));
      const Tensor slice = in_place ? buffers[r].slice(begins[r], sizes[r]) : reduced.bench.vector(Real::of(sizes[r]));
      reduced.join(Verb::reduce_scatter, buffers[r], slice, borders);
      gathered.join(Verb::all_gather, slice, in_place ? buffers[r] : reduced.bench.vector(4), borders);
    }
    reduced.move();
    CHECK(values(reduced.members[0].to) == std::vector<float>{3});
    CHECK(values(reduced.members[1].to) == std::vector<float>{});
    CHECK(values(reduced.members[2].to) == std::vector<float>{30, 300, 3000});
    for (int r = 0; r < 3; ++r)
      for (int i = 0; i < 4; ++i) CHECK(std::isnan(values(buffers[r])[i]) == (in_place && r != (i < 1 ? 0 : 2)));
    gathered.move();
    for (const Collective& member : gathered.members) CHECK(values(member.to) == std::vector<float>{3, 30, 300, 3000});
  }
}

TEST_CASE("members with buffers of different real sizes are refused") {
  Ring ring(2);
  for (int r = 0; r < 2; ++r) {
    const Tensor x = ring.bench.vector(4 + 2 * r);
    ring.join(Verb::all_reduce, x, x);
  }
  CHECK_THROWS_AS(ring.move(), IllegalStep);
}
