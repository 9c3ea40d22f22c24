// Block and Pool: a piece of a segment, and the cached ones from which requests of one size class are served.
#pragma once
#include <cstdint>
#include <set>

#include "core/band.h"
#include "core/stream.h"
#include "memory/settings.h"

namespace shardsim::memory {

struct Pool;
struct Block {
  std::int64_t address = 0, size = 0;  ///< bytes
  std::int64_t requested = 0;
  Pool* pool = nullptr;
  Block *previous = nullptr, *next = nullptr;  ///< neighbours in the segment
  Lane lane = Lane::compute;                   ///< whose cache it belongs to
  Band band = Band::workspace;
  Label label;  ///< of the request, as is the band
  bool allocated = false;
  bool mapped = true;       ///< false: address space of an expandable segment without memory behind it
  bool expandable = false;  ///< of an expandable segment
  unsigned used_on = 0;     ///< other lanes, a bit each
  int events = 0;           ///< uses on other lanes that are not over
  std::uint64_t since = 0;  ///< the pool's searches when it was freed
  bool is_split() const { return previous || next; }
};

/// By lane, then by address; with `by_size` by size in between: the first that is large enough is the best fit.
struct Order {
  bool by_size;
  bool operator()(const Block* a, const Block* b) const;
};

struct Pool {
  static constexpr std::int64_t small_page = 2 * MiB, large_page = 20 * MiB;  ///< its segments, and what expandable ones grow by
  explicit Pool(bool small) : is_small(small) {}
  bool is_small;
  std::uint64_t searches = 0;
  std::set<Block*, Order> free{Order{true}}, unmapped{Order{false}};
  std::int64_t page() const { return is_small ? small_page : large_page; }
};

}  // namespace shardsim::memory
