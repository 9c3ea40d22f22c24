// Streams for the allocator's tests: an event is over when the test says so.
#pragma once
#include <array>

#include "memory/caching_allocator.h"

namespace shardsim::test {

class ScriptedStreams final : public memory::CachingAllocator::Streams {
 public:
  Event record(Lane lane) override { return {lane, ++enqueued_[unsigned(lane)]}; }
  bool is_over(Event event) const override { return event.at <= finished_[unsigned(event.lane)]; }
  void synchronize() override {
    finished_ = enqueued_;
    ++synchronized;
  }
  void finish(Lane lane) { finished_[unsigned(lane)] = enqueued_[unsigned(lane)]; }
  int synchronized = 0;

 private:
  std::array<std::uint64_t, lane_count> enqueued_{}, finished_{};
};

/// An allocator with its streams, and room for everything unless told otherwise.
struct Pools {
  explicit Pools(memory::AllocatorOptions options = {}, std::int64_t capacity = std::int64_t{1} << 45)
      : allocator(options, streams, capacity) {}
  auto* malloc(std::int64_t bytes, Lane lane = Lane::compute, Band band = Band::workspace) {
    return allocator.malloc(bytes, lane, band);
  }
  std::int64_t reserved() const { return allocator.reserved().now; }
  std::int64_t allocated() const { return allocator.allocated().now; }
  ScriptedStreams streams;
  memory::CachingAllocator allocator;
};

}  // namespace shardsim::test
