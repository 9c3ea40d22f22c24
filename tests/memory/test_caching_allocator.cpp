// PyTorch's caching allocator: sizes, pools, best fit, splitting, merging, streams, and what happens when memory runs out.
#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "streams.h"

using namespace shardsim;
using memory::KiB, memory::MiB;
using test::Pools;
using Block = memory::CachingAllocator::Block;

TEST_CASE("a request is rounded up to 512 bytes") {
  Pools pools;
  CHECK(pools.malloc(1)->size == 512);
  CHECK(pools.malloc(512)->size == 512);
  CHECK(pools.malloc(513)->size == 1024);
  CHECK(pools.malloc(0) == nullptr);
  pools.allocator.free(nullptr);
  CHECK(pools.allocated() == 2048);
  CHECK(pools.allocator.requested().now == 1 + 512 + 513);
}

TEST_CASE("requests up to 1 MiB are packed into segments of 2 MiB") {
  Pools pools;
  for (int i = 0; i < 2; ++i) pools.malloc(MiB);
  CHECK(pools.reserved() == 2 * MiB);
  CHECK(pools.allocated() == 2 * MiB);
  pools.malloc(512);
  CHECK(pools.reserved() == 4 * MiB);
  CHECK(pools.allocator.segments().now == 2);
}

TEST_CASE("requests between 1 and 10 MiB are packed into segments of 20 MiB") {
  Pools pools;
  pools.malloc(MiB + 1);
  CHECK(pools.reserved() == 20 * MiB);
  pools.malloc(9 * MiB);
  pools.malloc(9 * MiB);  // 20 - 1 - 9 < 10, but just 9.9995: it fits
  CHECK(pools.reserved() == 20 * MiB);
  pools.malloc(9 * MiB);
  CHECK(pools.reserved() == 40 * MiB);
}

TEST_CASE("requests from 10 MiB on get a segment of their own, rounded up to 2 MiB") {
  Pools pools;
  pools.malloc(10 * MiB);
  CHECK(pools.reserved() == 10 * MiB);
  pools.malloc(10 * MiB + 1);
  CHECK(pools.reserved() == 22 * MiB);
}

TEST_CASE("the small and the large pool do not serve each other") {
  Pools pools;
  Block* large = pools.malloc(15 * MiB);
  pools.allocator.free(large);
  pools.malloc(512);
  CHECK(pools.reserved() == 16 * MiB + 2 * MiB);
}

TEST_CASE("the smallest cached block that is large enough is taken") {
  Pools pools;
  std::vector<Block*> blocks;
  for (std::int64_t size : {40, 30, 50}) blocks.push_back(pools.malloc(size * MiB));
  const std::int64_t wanted = blocks[1]->address;
  for (Block* block : blocks) pools.allocator.free(block);
  CHECK(pools.malloc(29 * MiB)->address == wanted);
  CHECK(pools.reserved() == 120 * MiB);
}

TEST_CASE("a block of the large pool is split only if more than 1 MiB remains") {
  Pools pools;
  CHECK(pools.malloc(11 * MiB)->size == 12 * MiB);              // exactly 1 MiB would remain
  CHECK(pools.malloc(11 * MiB - 512)->size == 11 * MiB - 512);  // 1 MiB and 512 bytes
  CHECK(pools.reserved() == 24 * MiB);
}

TEST_CASE("a block of the small pool is split if 512 bytes remain") {
  Pools pools;
  Block* block = pools.malloc(2 * 512);
  CHECK(block->size == 1024);
  CHECK(block->next->size == 2 * MiB - 1024);
  pools.malloc(512 * KiB);
  pools.malloc(512 * KiB);
  pools.malloc(1023 * KiB - 512);
  CHECK(pools.reserved() == 2 * MiB);
  CHECK(pools.malloc(512)->size == 512);  // the last 512 bytes
  CHECK(pools.reserved() == 2 * MiB);
}

TEST_CASE("a 25 MiB tensor counts 26 MiB") {
  Pools pools;
  pools.malloc(25 * MiB);  // 4 h^2 fp32 numbers for h = 1280
  CHECK(pools.allocator.requested().now == 25 * MiB);
  CHECK(pools.allocated() == 26 * MiB);
  CHECK(pools.reserved() == 26 * MiB);
}

TEST_CASE("GPT-2 Large's fp32 master, m and v, one tensor each, count 217 MiB more than they have") {
  // Source of the effect: DeepSpeed's stage 0 keeps its optimizer state tensor by tensor.
  const std::int64_t h = 1280;
  std::vector<std::int64_t> sizes = {50304 * h, 1024 * h, h, h};
  for (int layer = 0; layer < 36; ++layer)
    for (std::int64_t size : {h, h, 3 * h * h, 3 * h, h * h, h, h, h, 4 * h * h, 4 * h, 4 * h * h, h}) sizes.push_back(size);
  REQUIRE(sizes.size() == 436);
  Pools pools;
  for (int copy = 0; copy < 3; ++copy)
    for (std::int64_t size : sizes) pools.malloc(4 * size);
  // 72 x 3 tensors of 25 MiB in 26; 3 embeddings of 245.625 MiB in 246.
  CHECK(pools.allocated() - pools.allocator.requested().now == 216 * MiB + 3 * (384 * KiB));
}

TEST_CASE("a freed block merges with its free neighbours") {
  Pools pools;
  std::vector<Block*> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(pools.malloc(5 * MiB));
  const std::int64_t begin = blocks[0]->address;
  pools.allocator.free(blocks[0]);
  pools.allocator.free(blocks[2]);  // with the 5 MiB that nobody has asked for
  CHECK(pools.malloc(9 * MiB)->address == begin + 10 * MiB);
  pools.allocator.free(blocks[1]);
  CHECK(pools.malloc(9 * MiB)->address == begin);  // 5 + 5
  CHECK(pools.reserved() == 20 * MiB);
}

TEST_CASE("a cached block serves its own stream only") {
  Pools pools;
  pools.allocator.free(pools.malloc(30 * MiB, Lane::gather));
  pools.malloc(30 * MiB, Lane::compute);
  CHECK(pools.reserved() == 60 * MiB);
  pools.malloc(30 * MiB, Lane::gather);
  CHECK(pools.reserved() == 60 * MiB);
}

TEST_CASE("a block that another stream uses is reusable only when that stream has got there") {
  Pools pools;
  Block* block = pools.malloc(30 * MiB, Lane::gather);
  pools.allocator.record_stream(block, Lane::compute);
  pools.allocator.free(block);
  CHECK(pools.allocated() == 0);  // drops at once
  CHECK(pools.allocator.active().now == 30 * MiB);
  CHECK(pools.allocator.requested().now == 30 * MiB);
  CHECK(pools.allocator.awaits_events());
  Block* other = pools.malloc(30 * MiB, Lane::gather);
  CHECK(pools.reserved() == 60 * MiB);
  CHECK(pools.allocator.books().awaiting == 30 * MiB);
  pools.streams.finish(Lane::compute);
  CHECK(pools.malloc(30 * MiB, Lane::gather) == block);
  CHECK(pools.reserved() == 60 * MiB);
  CHECK_FALSE(pools.allocator.awaits_events());
  pools.allocator.record_stream(other, Lane::gather);  // its own: nothing to wait for
  pools.allocator.free(other);
  CHECK_FALSE(pools.allocator.awaits_events());
}

TEST_CASE("a block that waits for two streams waits for both, and takes no neighbour in before") {
  Pools pools;
  Block *first = pools.malloc(5 * MiB), *second = pools.malloc(5 * MiB);
  pools.allocator.record_stream(first, Lane::gather);
  pools.allocator.record_stream(first, Lane::reduce);
  pools.allocator.free(first);
  pools.allocator.free(second);
  pools.streams.finish(Lane::gather);
  pools.allocator.free(pools.malloc(512));
  CHECK(pools.allocator.active().now == 5 * MiB);
  pools.streams.finish(Lane::reduce);
  pools.allocator.free(pools.malloc(512));
  CHECK(pools.allocator.active().now == 0);
  CHECK(pools.malloc(19 * MiB)->size == 20 * MiB);  // all of the segment
  CHECK(pools.allocator.segments().now == 2);
}

TEST_CASE("segments are kept: reserved does not shrink when memory is freed") {
  Pools pools;
  pools.allocator.free(pools.malloc(100 * MiB));
  CHECK(pools.allocated() == 0);
  CHECK(pools.reserved() == 100 * MiB);
  CHECK(pools.streams.synchronized == 0);
}

TEST_CASE("where memory runs out, whole cached segments are given back and the request is tried again") {
  Pools pools({}, 100 * MiB);
  Block* kept = pools.malloc(5 * MiB);
  Block* freed = pools.malloc(60 * MiB);
  pools.allocator.record_stream(freed, Lane::reduce);
  pools.allocator.free(freed);
  CHECK(pools.reserved() == 80 * MiB);
  CHECK(pools.malloc(70 * MiB)->size == 70 * MiB);
  CHECK(pools.reserved() == 90 * MiB);  // the segment that is in part in use stays
  CHECK(pools.streams.synchronized == 1);
  CHECK(pools.allocator.books().retries == 1);
  CHECK(pools.allocator.books().out_of_memory == 0);
  CHECK(pools.allocator.reserved().peak == 90 * MiB);
  pools.allocator.free(kept);
}

TEST_CASE("where there is no room even without the cache, that is noted and the run goes on") {
  Pools pools({}, 100 * MiB);
  pools.malloc(60 * MiB, Lane::compute, Band::param);
  pools.malloc(50 * MiB, Lane::compute, Band::activation);
  pools.malloc(70 * MiB, Lane::compute, Band::grad);
  const AllocatorBooks books = pools.allocator.books();
  CHECK(books.out_of_memory == 50 * MiB);  // the first one
  CHECK(books.retries == 1);               // nobody tries again after the verdict
  CHECK(books.reserved == 180 * MiB);
  CHECK(books.bands[unsigned(Band::param)] == 60 * MiB);
  CHECK(books.bands[unsigned(Band::activation)] == 50 * MiB);
  CHECK(books.bands[unsigned(Band::grad)] == 70 * MiB);
}

TEST_CASE("the composition at the reserved peak adds up to it") {
  Pools pools;
  pools.malloc(30 * MiB, Lane::compute, Band::param);
  Block* gathered = pools.malloc(30 * MiB, Lane::gather, Band::gathered);
  pools.allocator.record_stream(gathered, Lane::compute);
  pools.allocator.free(gathered);
  pools.allocator.free(pools.malloc(40 * MiB, Lane::compute, Band::activation));
  pools.malloc(60 * MiB, Lane::compute, Band::grad);
  pools.allocator.free(pools.malloc(512, Lane::compute, Band::grad));
  const AllocatorBooks books = pools.allocator.books();
  std::int64_t sum = books.awaiting + books.cached;
  for (std::int64_t bytes : books.bands) sum += bytes;
  CHECK(sum == books.reserved);
  CHECK(books.reserved == 162 * MiB);
  CHECK(books.awaiting == 30 * MiB);
  CHECK(books.bands[unsigned(Band::activation)] == 0);
  CHECK(books.cached == 42 * MiB - 512);
  CHECK(books.allocated == 90 * MiB + 512);
  CHECK(books.active == 120 * MiB + 512);
}

namespace {

/// What must hold after every call: the blocks of all kinds fill the segments, and free neighbours are merged.
void check_invariants(const Pools& pools, const std::vector<Block*>& held) {
  std::int64_t sum = 0;
  for (const Block* block : held) {
    sum += block->size;
    for (const Block* beside : {block->previous, block->next}) {
      if (!beside) continue;
      const bool touches = beside->address + beside->size == block->address || block->address + block->size == beside->address;
      REQUIRE(touches);
      REQUIRE(beside->lane == block->lane);
    }
  }
  REQUIRE(pools.allocated() == sum);
  REQUIRE(pools.allocator.requested().now <= pools.allocator.active().now);
  REQUIRE(pools.allocated() <= pools.allocator.active().now);
  REQUIRE(pools.allocator.active().now <= pools.reserved());
}

}  // namespace

TEST_CASE("ten thousand random calls keep the books, with each kind of segment, and everything comes back") {
  for (const bool expandable : {false, true}) {
    CAPTURE(expandable);
    memory::AllocatorOptions options;
    options.expandable_segments = expandable;
    Pools pools(options, 900 * MiB);
    std::mt19937 random(7);
    std::vector<Block*> held;
    const auto below = [&](unsigned n) { return unsigned(random() % n); };
    for (int call = 0; call < 10'000; ++call) {
      if (held.empty() || below(2)) {
        const std::int64_t size = below(4) ? 1 + below(3'000'000) : 1 + below(40'000'000);
        if (pools.allocated() + size < 600 * MiB) held.push_back(pools.malloc(size, Lane(below(lane_count))));
      } else {
        const unsigned which = below(unsigned(held.size()));
        if (below(3) == 0) pools.allocator.record_stream(held[which], Lane(below(lane_count)));
        pools.allocator.free(held[which]);
        held.erase(held.begin() + which);
      }
      if (below(50) == 0) pools.streams.finish(Lane(below(lane_count)));
      check_invariants(pools, held);
    }
    CHECK(pools.allocator.books().retries > 0);
    for (Block* block : held) pools.allocator.free(block);
    pools.streams.synchronize();
    pools.allocator.free(pools.malloc(512));  // looks at the events
    CHECK(pools.allocated() == 0);
    CHECK(pools.allocator.active().now == 0);
    CHECK(pools.allocator.requested().now == 0);
    pools.allocator.limit(pools.reserved());
    pools.malloc(2000 * MiB);  // gives everything back before it is refused
    CHECK(pools.reserved() == 2000 * MiB);
  }
}
