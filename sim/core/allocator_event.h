// AllocatorEvent: one thing that a caching allocator did, as PyTorch's memory history records it.
#pragma once
#include <cstdint>

#include "core/band.h"
#include "core/stream.h"

namespace shardsim {

struct AllocatorEvent {
  enum class Action : std::uint8_t {
    segment_alloc,  ///< cudaMalloc
    segment_free,   ///< cudaFree
    segment_map,    ///< memory behind a part of an expandable segment
    segment_unmap,
    alloc,           ///< a block is handed out
    free_requested,  ///< the program has freed it; other streams may still use it
    free_completed,  ///< it may be handed out again
    oom,
  };
  double seconds = 0;     ///< as the host sees them
  std::int64_t address;   ///< within the rank
  std::int64_t size;      ///< bytes: of the segment; of a block what was asked for
  std::int64_t held = 0;  ///< bytes of the block that serves the request; of oom, what the driver had left
  std::int32_t unit = -1;
  Action action;
  Lane lane;
  Band band = Band::workspace;
  Verb cause = Verb::bind;
  bool small = false;  ///< of the pool for requests up to 1 MiB
};

}  // namespace shardsim
