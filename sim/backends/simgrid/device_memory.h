// DeviceMemory: a rank's memory as PyTorch and nvidia-smi would show it, beside the ledger's exact books: the caching allocator,
// called in host order when operations are enqueued, and what is held outside of it.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/tensor.h"
#include "memory/caching_allocator.h"

namespace shardsim::simgrid_backend {

class SimDevice;
class Communicator;

class DeviceMemory final : memory::CachingAllocator::Streams {
 public:
  using Block = memory::CachingAllocator::Block;
  /// `records`: every event of the allocator is kept.
  DeviceMemory(SimDevice&, const memory::Settings&, bool records);

  /// Called before the storage is made, since the host may sleep here: whether a block is free again is asked at the host's own
  /// date, not at that of an engine that is behind it. Null where memory is exact.
  Block* allocate(Lane, Band, std::int64_t bytes);
  void keep(const Storage* storage, Block* block) {
    if (block) blocks_[storage] = block;
  }
  /// On another lane than the block's own, as after record_stream.
  void free(Lane, const Storage*);
  /// The rank issues a collective: its communicator takes memory once.
  void use(Communicator&);
  AllocatorBooks books() const;
  const std::vector<AllocatorEvent>& history() const { return history_; }

 private:
  Event record(Lane) override;
  bool is_over(Event) const override;
  void synchronize() override;
  void date_events();
  std::int64_t outside() const { return settings_.context + std::int64_t(communicators_.size()) * settings_.communicator; }

  SimDevice& device_;
  memory::Settings settings_;
  std::unique_ptr<memory::CachingAllocator> pools_;  // null: memory is exact
  std::unordered_map<const Storage*, Block*> blocks_;
  std::vector<AllocatorEvent> history_;
  std::size_t dated_ = 0;
  std::vector<const Communicator*> communicators_;  // that this rank used, and that have other ranks in them
};

}  // namespace shardsim::simgrid_backend
