// PyTorch's options of the caching allocator, by their names in PYTORCH_CUDA_ALLOC_CONF.
#include <doctest/doctest.h>

#include "streams.h"

using namespace shardsim;
using memory::KiB, memory::MiB;
using test::Pools;
using Block = memory::CachingAllocator::Block;

TEST_CASE("roundup_power2_divisions: 4 rounds up to quarters between powers of two") {
  Pools pools({.roundup_power2_divisions = 4});
  CHECK(pools.malloc(1200 * KiB)->size == 1280 * KiB);  // 1024, 1280, 1536, 1792, 2048
  CHECK(pools.malloc(1280 * KiB)->size == 1280 * KiB);
  CHECK(pools.malloc(1800 * KiB)->size == 2048 * KiB);
  CHECK(pools.malloc(2048)->size == 2048);
  CHECK(pools.malloc(1000)->size == 1024);  // up to 4 x 512 bytes: as without the option
}

TEST_CASE("max_split_size_mb: a block from this size on is neither split nor given to a smaller request") {
  Pools pools({.max_split_size_mb = 100});
  Block* oversize = pools.malloc(120 * MiB);
  pools.allocator.free(oversize);
  CHECK(pools.malloc(50 * MiB) != oversize);
  CHECK(pools.reserved() == 170 * MiB);
  Block* again = pools.malloc(101 * MiB);  // at most 20 MiB less than the block has
  CHECK(again == oversize);
  CHECK(again->size == 120 * MiB);
  pools.allocator.free(again);
  Block* larger = pools.malloc(160 * MiB);
  pools.allocator.free(larger);
  CHECK(pools.malloc(130 * MiB) != larger);  // 30 MiB less
}

TEST_CASE("max_split_size_mb: oversize blocks are given back before the whole cache is") {
  Pools pools({.max_split_size_mb = 100}, 400 * MiB);
  Block* kept_in_cache = pools.malloc(50 * MiB);
  Block *a = pools.malloc(120 * MiB), *b = pools.malloc(130 * MiB);
  for (Block* block : {kept_in_cache, a, b}) pools.allocator.free(block);
  pools.malloc(200 * MiB);  // 120 + 130 are enough together
  CHECK(pools.reserved() == 250 * MiB);
  CHECK(pools.allocator.books().retries == 0);
  CHECK(pools.malloc(50 * MiB) == kept_in_cache);
}

TEST_CASE("garbage_collection_threshold: above it, what was unused for longest is given back first") {
  Pools pools({.garbage_collection_threshold = 0.5});
  Block *old = pools.malloc(60 * MiB), *young = pools.malloc(80 * MiB), *busy = pools.malloc(100 * MiB);
  pools.allocator.free(old);
  pools.allocator.free(pools.malloc(12 * MiB, Lane::gather));  // time passes: searches of the pool
  pools.allocator.free(young);
  CHECK(pools.reserved() == 252 * MiB);
  pools.allocator.limit(400 * MiB);
  pools.malloc(90 * MiB);  // 52 MiB above the threshold: the 60 MiB go, and what is as old on average
  CHECK(pools.reserved() == 252 * MiB - 60 * MiB + 90 * MiB);
  CHECK(pools.malloc(80 * MiB) == young);
  CHECK(pools.allocator.books().retries == 0);
  CHECK(pools.streams.synchronized == 0);
  pools.allocator.free(busy);
}

TEST_CASE("expandable_segments: blocks are split to the byte and segments grow by pages of 20 MiB") {
  Pools pools({.expandable_segments = true}, 1000 * MiB);
  Block* first = pools.malloc(25 * MiB);
  CHECK(first->size == 25 * MiB);
  CHECK(pools.reserved() == 40 * MiB);
  CHECK(pools.malloc(14 * MiB)->address == first->address + 25 * MiB);
  CHECK(pools.reserved() == 40 * MiB);
  pools.malloc(25 * MiB);
  CHECK(pools.reserved() == 80 * MiB);
  CHECK(pools.malloc(512)->size == 512);
  CHECK(pools.reserved() == 82 * MiB);
}

TEST_CASE("expandable_segments: freed blocks of different requests make room for a larger one") {
  for (const bool expandable : {false, true}) {
    Pools pools({.expandable_segments = expandable}, 1000 * MiB);
    Block *a = pools.malloc(40 * MiB), *b = pools.malloc(40 * MiB);
    pools.allocator.free(a);
    pools.allocator.free(b);
    pools.malloc(100 * MiB);
    CHECK(pools.reserved() == (expandable ? 100 * MiB : 180 * MiB));
    CHECK(pools.allocator.books().expandable == 100 * MiB);  // what is foretold without the option
  }
}

TEST_CASE("expandable_segments: whole pages inside a free block are given back when memory runs out") {
  Pools pools({.expandable_segments = true}, 200 * MiB);
  Block* first = pools.malloc(30 * MiB);
  Block* middle = pools.malloc(100 * MiB);
  pools.malloc(30 * MiB);
  CHECK(pools.reserved() == 160 * MiB);
  pools.allocator.free(middle);  // 30 to 130: the pages from 40 to 120
  pools.malloc(110 * MiB, Lane::gather);
  CHECK(pools.reserved() == 80 * MiB + 120 * MiB);
  CHECK(pools.allocator.books().retries == 1);
  CHECK(pools.allocator.books().out_of_memory == 0);
  pools.allocator.free(first);  // beside the 10 MiB that stayed in the first pages: the hole is filled again
  pools.allocator.limit(1000 * MiB);
  CHECK(pools.malloc(130 * MiB)->size == 130 * MiB);
  CHECK(pools.reserved() == 280 * MiB);
}
