// CachingAllocator: PyTorch's CUDA caching allocator without the memory: which block serves a request, what is split, merged,
// cached and given back. After c10/cuda/CUDACachingAllocator.cpp of pytorch/pytorch, whose names are used here.
//
// Called in host order. Memory comes from the driver in segments and is handed out in blocks. A freed block is cached for its own
// stream; it never goes to another one.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "core/allocator_event.h"
#include "core/ledger.h"
#include "memory/block.h"
#include "memory/settings.h"

namespace shardsim::memory {

class CachingAllocator {
 public:
  using Block = memory::Block;
  static constexpr std::int64_t min_block = 512;   ///< sizes are multiples of it
  static constexpr std::int64_t small_size = MiB;  ///< requests up to this come from the small pool
  static constexpr std::int64_t small_buffer = Pool::small_page;
  static constexpr std::int64_t large_buffer = Pool::large_page;  ///< for requests below min_large
  static constexpr std::int64_t min_large = 10 * MiB;             ///< requests from this size on get a segment of their own size,
  static constexpr std::int64_t round_large = 2 * MiB;            ///< in multiples of this

  /// The streams' clocks, as the allocator asks about them.
  class Streams {
   public:
    virtual Event record(Lane) = 0;
    virtual bool is_over(Event) const = 0;
    /// Waits until everything enqueued is over: giving memory back to the driver does.
    virtual void synchronize() = 0;

   protected:
    ~Streams() = default;
  };

  struct Stat {
    std::int64_t now = 0, peak = 0;
    void add(std::int64_t n) {
      now += n;
      if (now > peak) peak = now;
    }
  };

  /// `capacity`: bytes that the driver has for this allocator.
  CachingAllocator(const AllocatorOptions&, Streams&, std::int64_t capacity);
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  /// A block for `lane`; null for no bytes. Where there is no room even without the cache, out_of_memory is noted once, and from
  /// then on there is room for everything.
  Block* malloc(std::int64_t bytes, Lane, Band, Label = {});
  /// The block is in use on this lane too: its free waits for what is enqueued there by then.
  void record_stream(Block*, Lane);
  void free(Block*);
  /// Some freed blocks wait for events: the next malloc asks whether they are over.
  bool awaits_events() const;
  /// The driver has so much from now on, unless there is room for everything.
  void limit(std::int64_t capacity) {
    if (at_peak_.out_of_memory == 0) capacity_ = capacity;
  }

  /// What happens from now on, undated; null: it is not kept.
  void keep_history(std::vector<AllocatorEvent>* history) { history_ = history; }

  const Stat& requested() const { return requested_; }  ///< what was asked for
  const Stat& allocated() const { return allocated_; }  ///< blocks handed out: PyTorch's memory_allocated
  const Stat& active() const { return active_; }        ///< and those that are freed but still in use on another lane
  const Stat& reserved() const { return reserved_; }    ///< segments: PyTorch's memory_reserved
  const Stat& segments() const { return segments_; }    ///< their number
  AllocatorBooks books() const;

 private:
  struct Request {
    std::int64_t size;
    Lane lane;
    Pool* pool;
  };
  std::int64_t rounded(std::int64_t bytes) const;
  bool splits(const Block&, std::int64_t size) const;
  Block* find_free(const Request&);
  Block* new_segment(const Request&);
  Block* new_from_driver(const Request&);
  Block* hand_out(Block*, const Request&, std::int64_t bytes, Band);
  void process_events();
  void free_block(Block*);
  void merge(Block* into, Block* neighbour);
  void cache(Block*);
  void release(Block*);
  void release_cached();
  bool release_oversize(const Request&);
  void collect_garbage();
  void note_peak();
  void note(AllocatorEvent::Action, const Block&, std::int64_t size, std::int64_t held = 0);

  // Expandable segments: address space first, memory page by page.
  Block* expand(const Request&);
  Block* address_space(const Request&);
  bool map(Block*, std::int64_t size);
  void unmap(Block*);

  Block* make_block(const Block&);
  void drop(Block*);
  bool is_oversize(std::int64_t size) const { return max_split_ > 0 && size >= max_split_; }

  AllocatorOptions options_;
  Streams& streams_;
  std::int64_t capacity_, max_split_, next_address_ = large_buffer;
  Pool small_{true}, large_{false};
  std::array<std::deque<std::pair<Event, Block*>>, lane_count> pending_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Block*> dropped_;  // to be used again
  Stat requested_, allocated_, active_, reserved_, segments_;
  std::array<std::array<Stat, 2>, lane_count> active_in_;  // by lane and pool
  std::array<std::int64_t, band_count> bands_{};           // of allocated blocks
  AllocatorBooks at_peak_;
  std::vector<AllocatorEvent>* history_ = nullptr;
  Band band_ = Band::workspace;  // of the request at hand, as is the label
  Label label_;
};

}  // namespace shardsim::memory
