// CachingAllocator: serving a request from the cache or with a new segment, freeing, and giving back.
#include "memory/caching_allocator.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>

namespace shardsim::memory {
namespace {

constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

std::int64_t up(std::int64_t size, std::int64_t step) { return (size + step - 1) / step * step; }

}  // namespace

bool Order::operator()(const Block* a, const Block* b) const {
  if (a->lane != b->lane) return a->lane < b->lane;
  if (by_size && a->size != b->size) return a->size < b->size;
  return a->address < b->address;
}

CachingAllocator::CachingAllocator(const AllocatorOptions& options, Streams& streams, std::int64_t capacity)
    : options_(options), streams_(streams), capacity_(capacity), max_split_(options.max_split_size_mb * MiB) {}

Block* CachingAllocator::make_block(const Block& like) {
  if (dropped_.empty()) {
    blocks_.push_back(std::make_unique<Block>(like));
    return blocks_.back().get();
  }
  Block* block = dropped_.back();
  dropped_.pop_back();
  *block = like;
  return block;
}

void CachingAllocator::drop(Block* block) { dropped_.push_back(block); }

// ---- sizes

std::int64_t CachingAllocator::rounded(std::int64_t bytes) const {
  const std::int64_t divisions = options_.roundup_power2_divisions;
  if (divisions <= 1 || bytes <= min_block * divisions) return up(bytes, min_block);
  // The distance from one power of two to the next, in `divisions` equal steps.
  return up(bytes, std::int64_t(std::bit_floor(std::uint64_t(bytes))) / divisions);
}

/// Otherwise the whole block is handed out, and counted.
bool CachingAllocator::splits(const Block& block, std::int64_t size) const {
  const std::int64_t rest = block.size - size;
  if (block.pool->is_small || options_.expandable_segments) return rest >= min_block;
  return !is_oversize(size) && rest > small_size;
}

// ---- malloc

Block* CachingAllocator::malloc(std::int64_t bytes, Lane lane, Band band, Label label) {
  if (bytes <= 0) return nullptr;
  band_ = band, label_ = label;
  process_events();
  const std::int64_t size = rounded(bytes);
  const Request request{size, lane, size <= small_size ? &small_ : &large_};
  Block* block = find_free(request);
  if (!block) {
    collect_garbage();
    block = new_segment(request);
  }
  if (!block && release_oversize(request)) block = new_segment(request);
  if (!block) {
    ++at_peak_.retries;
    release_cached();
    block = new_segment(request);
  }
  if (!block) {
    at_peak_.out_of_memory = bytes;
    Block asked;
    asked.lane = lane, asked.pool = request.pool, asked.band = band, asked.label = label;
    note(AllocatorEvent::Action::oom, asked, bytes, capacity_ - reserved_.now);
    capacity_ = unlimited;
    block = new_segment(request);
  }
  return hand_out(block, request, bytes, band);
}

/// The smallest cached block of this lane that is large enough.
Block* CachingAllocator::find_free(const Request& request) {
  Pool& pool = *request.pool;
  ++pool.searches;
  Block key;
  key.lane = request.lane, key.size = request.size, key.address = -1;
  auto found = pool.free.lower_bound(&key);
  if (found == pool.free.end() || (*found)->lane != request.lane) return nullptr;
  if (options_.expandable_segments) {
    // A block in front of unmapped space counts as large as it can grow: better not cut into that one.
    const auto growable = [](const Block* b) { return b->size + (b->next && !b->next->mapped ? b->next->size : 0); };
    for (auto next = std::next(found);
         next != pool.free.end() && (*next)->lane == request.lane && growable(*next) < growable(*found); ++next)
      found = next;
  }
  // An oversize block serves oversize requests only, and of those the ones that nearly fill it.
  if (is_oversize((*found)->size) && !is_oversize(request.size)) return nullptr;
  if (is_oversize(request.size) && (*found)->size >= request.size + large_buffer) return nullptr;
  Block* block = *found;
  pool.free.erase(found);
  return block;
}

Block* CachingAllocator::new_segment(const Request& request) {
  return options_.expandable_segments ? expand(request) : new_from_driver(request);
}

Block* CachingAllocator::new_from_driver(const Request& request) {
  const std::int64_t size = request.pool->is_small     ? small_buffer
                            : request.size < min_large ? large_buffer
                                                       : up(request.size, round_large);
  if (size > capacity_ - reserved_.now) return nullptr;
  Block block;
  block.address = next_address_, block.size = size, block.pool = request.pool, block.lane = request.lane;
  block.band = band_, block.label = label_;
  note(AllocatorEvent::Action::segment_alloc, block, size);
  next_address_ += size;
  segments_.add(1);
  reserved_.add(size);
  return make_block(block);
}

Block* CachingAllocator::hand_out(Block* block, const Request& request, std::int64_t bytes, Band band) {
  if (splits(*block, request.size)) {
    Block* rest = make_block(*block);
    rest->address += request.size, rest->size -= request.size;
    rest->previous = block;
    if (rest->next) rest->next->previous = rest;
    block->next = rest, block->size = request.size;
    cache(rest);
  }
  block->allocated = true, block->requested = bytes, block->band = band, block->label = label_;
  note(AllocatorEvent::Action::alloc, *block, bytes, block->size);
  requested_.add(bytes), allocated_.add(block->size), active_.add(block->size);
  active_in_[unsigned(block->lane)][block->pool->is_small].add(block->size);
  bands_[unsigned(band)] += block->size;
  note_peak();
  return block;
}

void CachingAllocator::note_peak() {
  if (reserved_.now <= at_peak_.reserved) return;
  at_peak_.reserved = reserved_.now;
  at_peak_.bands = bands_;
  at_peak_.awaiting = active_.now - allocated_.now;
  at_peak_.cached = reserved_.now - active_.now;
}

void CachingAllocator::note(AllocatorEvent::Action action, const Block& block, std::int64_t size, std::int64_t held) {
  if (history_)
    history_->push_back(
        {0, block.address, size, held, block.label.unit, action, block.lane, block.band, block.label.verb, block.pool->is_small});
}

// ---- free

void CachingAllocator::record_stream(Block* block, Lane lane) {
  if (block && lane != block->lane) block->used_on |= 1u << unsigned(lane);
}

void CachingAllocator::free(Block* block) {
  if (!block) return;
  note(AllocatorEvent::Action::free_requested, *block, block->requested, block->size);
  block->allocated = false;
  allocated_.add(-block->size);
  bands_[unsigned(block->band)] -= block->size;
  for (int lane = 0; lane < lane_count; ++lane) {
    if ((block->used_on >> lane & 1u) == 0) continue;
    pending_[lane].emplace_back(streams_.record(Lane(lane)), block);
    ++block->events;
  }
  block->used_on = 0;
  if (block->events == 0) free_block(block);
}

bool CachingAllocator::awaits_events() const {
  return std::any_of(pending_.begin(), pending_.end(), [](const auto& queue) { return !queue.empty(); });
}

void CachingAllocator::process_events() {
  for (auto& queue : pending_)
    while (!queue.empty() && streams_.is_over(queue.front().first)) {
      Block* block = queue.front().second;
      queue.pop_front();
      if (--block->events == 0) free_block(block);
    }
}

void CachingAllocator::free_block(Block* block) {
  note(AllocatorEvent::Action::free_completed, *block, block->requested, block->size);
  requested_.add(-block->requested), active_.add(-block->size);
  active_in_[unsigned(block->lane)][block->pool->is_small].add(-block->size);
  merge(block, block->previous);
  merge(block, block->next);
  cache(block);
}

/// Takes in a neighbour that is free; `into` is in no set.
void CachingAllocator::merge(Block* into, Block* neighbour) {
  if (!neighbour || neighbour->allocated || neighbour->events > 0 || neighbour->mapped != into->mapped) return;
  (neighbour->mapped ? neighbour->pool->free : neighbour->pool->unmapped).erase(neighbour);
  if (neighbour == into->previous) {
    into->address = neighbour->address;
    into->previous = neighbour->previous;
    if (into->previous) into->previous->next = into;
  } else {
    into->next = neighbour->next;
    if (into->next) into->next->previous = into;
  }
  into->size += neighbour->size;
  drop(neighbour);
}

void CachingAllocator::cache(Block* block) {
  block->since = block->pool->searches;
  block->pool->free.insert(block);
}

// ---- giving back

/// Gives a whole cached segment back to the driver.
void CachingAllocator::release(Block* block) {
  block->pool->free.erase(block);
  note(AllocatorEvent::Action::segment_free, *block, block->size);
  reserved_.add(-block->size);
  segments_.add(-1);
  drop(block);
}

void CachingAllocator::release_cached() {
  streams_.synchronize();
  process_events();
  for (Pool* pool : {&large_, &small_}) {
    const std::vector<Block*> cached(pool->free.begin(), pool->free.end());
    for (Block* block : cached)
      if (block->expandable) unmap(block);
      else if (!block->is_split()) release(block);
  }
}

/// With max_split_size_mb: gives back an oversize block that is large enough, or the largest ones until they are together.
bool CachingAllocator::release_oversize(const Request& request) {
  if (max_split_ == 0) return false;
  std::set<Block*, Order>& free = request.pool->free;
  Block key;
  key.lane = request.lane, key.size = std::max(request.size, max_split_), key.address = -1;
  auto at = free.lower_bound(&key);
  if (at != free.end() && (*at)->lane == request.lane) {
    if ((*at)->expandable) return false;
    release(*at);
    return true;
  }
  std::int64_t released = 0;
  while (released < key.size && at != free.begin()) {
    Block* largest = *std::prev(at);
    if (!is_oversize(largest->size) || largest->lane != request.lane || largest->expandable) break;
    released += largest->size;
    release(largest);
    at = free.lower_bound(&key);
  }
  return released >= key.size;
}

/// Gives back the cached segments of the large pool that were not used for longest, until the threshold is kept.
void CachingAllocator::collect_garbage() {
  if (options_.garbage_collection_threshold <= 0 || capacity_ == unlimited) return;
  std::int64_t excess = reserved_.now - std::int64_t(options_.garbage_collection_threshold * double(capacity_));
  if (excess <= 0) return;
  std::vector<Block*> whole;
  std::uint64_t ages = 0;
  const auto age = [this](const Block* block) { return large_.searches - block->since; };
  for (Block* block : large_.free)
    if (!block->is_split() && !block->expandable) whole.push_back(block), ages += age(block);
  while (excess > 0 && !whole.empty()) {
    const double mean = double(ages) / double(whole.size());
    std::erase_if(whole, [&](Block* block) {
      if (double(age(block)) < mean) return false;
      excess -= block->size;
      ages -= age(block);
      release(block);
      return true;
    });
  }
}

AllocatorBooks CachingAllocator::books() const {
  AllocatorBooks books = at_peak_;
  books.emulated = true;
  books.requested = requested_.peak, books.allocated = allocated_.peak, books.active = active_.peak;
  books.allocated_now = allocated_.now;
  for (const auto& pools : active_in_)
    for (int small = 0; small < 2; ++small) books.expandable += up(pools[small].peak, small ? small_buffer : large_buffer);
  return books;
}

}  // namespace shardsim::memory
