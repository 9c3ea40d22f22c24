// CachingAllocator's expandable segments: one range of addresses per stream and pool, backed by memory page by page as it grows, so
// that neighbours of different requests can merge. Pages have 2 MiB in the small pool, 20 MiB in the large one.
#include <algorithm>

#include "memory/caching_allocator.h"

namespace shardsim::memory {
namespace {

bool is_usable(const Block* block) { return block && !block->allocated && block->events == 0; }

}  // namespace

/// A run of free and unmapped blocks of this lane with room for the request: the first of them.
Block* CachingAllocator::address_space(const Request& request) {
  Pool& pool = *request.pool;
  Block key;
  key.lane = request.lane, key.address = -1;
  for (auto at = pool.unmapped.lower_bound(&key); at != pool.unmapped.end() && (*at)->lane == request.lane; ++at) {
    Block* first = is_usable((*at)->previous) ? (*at)->previous : *at;
    std::int64_t room = 0;
    for (const Block* block = first; room < request.size && is_usable(block); block = block->next) room += block->size;
    if (room >= request.size) return first;
  }
  // As PyTorch: addresses for an eighth more than the GPU has; more if that would not do.
  const std::int64_t page = pool.page(), most = std::int64_t{1} << 50;
  const std::int64_t wanted = std::max(std::min(capacity_, most) / 8 * 9, request.size);
  Block block;
  block.size = (wanted + page - 1) / page * page;
  block.address = (next_address_ + page - 1) / page * page, block.pool = &pool, block.lane = request.lane;
  block.mapped = false, block.expandable = true;
  next_address_ = block.address + block.size;
  segments_.add(1);
  Block* made = make_block(block);
  pool.unmapped.insert(made);
  return made;
}

Block* CachingAllocator::expand(const Request& request) {
  Block* block = address_space(request);
  if (!block->mapped && !map(block, std::min(block->size, request.size))) return nullptr;
  while (block->size < request.size) {  // free, and unmapped behind it
    Block* behind = block->next;
    if (!map(behind, std::min(request.size - block->size, behind->size))) return nullptr;
    block = behind;  // has taken in what was in front of it
  }
  request.pool->free.erase(block);
  return block;
}

/// Puts memory behind the first `size` bytes of an unmapped block, in whole pages; what is free beside it becomes one block with
/// it.
bool CachingAllocator::map(Block* block, std::int64_t size) {
  Pool& pool = *block->pool;
  const std::int64_t page = pool.page();
  size = (size + page - 1) / page * page;
  if (size > capacity_ - reserved_.now) return false;
  pool.unmapped.erase(block);
  block->mapped = true, block->band = band_, block->label = label_;
  note(AllocatorEvent::Action::segment_map, *block, size);
  if (size < block->size) {
    Block* rest = make_block(*block);
    rest->mapped = false;
    rest->address += size, rest->size -= size;
    rest->previous = block;
    if (rest->next) rest->next->previous = rest;
    block->next = rest, block->size = size;
    pool.unmapped.insert(rest);
  }
  merge(block, block->previous);
  merge(block, block->next);
  cache(block);
  reserved_.add(size);
  return true;
}

/// Takes back the whole pages inside a free block.
void CachingAllocator::unmap(Block* block) {
  Pool& pool = *block->pool;
  const std::int64_t page = pool.page(), end = block->address + block->size;
  const std::int64_t first = (block->address + page - 1) / page * page, last = end / page * page;
  if (last <= first) return;
  pool.free.erase(block);
  const auto cut_off = [&](std::int64_t from, std::int64_t to) {  // stays free
    Block* piece = make_block(*block);
    piece->address = from, piece->size = to - from;
    return piece;
  };
  if (block->address < first) {
    Block* before = cut_off(block->address, first);
    if (before->previous) before->previous->next = before;
    before->next = block, block->previous = before;
    cache(before);
  }
  if (last < end) {
    Block* after = cut_off(last, end);
    if (after->next) after->next->previous = after;
    after->previous = block, block->next = after;
    cache(after);
  }
  block->address = first, block->size = last - first, block->mapped = false;
  note(AllocatorEvent::Action::segment_unmap, *block, block->size);
  reserved_.add(-block->size);
  merge(block, block->previous);
  merge(block, block->next);
  pool.unmapped.insert(block);
}

}  // namespace shardsim::memory
