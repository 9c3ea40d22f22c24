// memory_snapshot.pickle: what torch.cuda.memory._dump_snapshot would have written, for PyTorch's memory viewer
// (pytorch.org/memory_viz). A device per rank.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "core/allocator_event.h"
#include "core/ledger.h"

namespace shardsim::formats {

struct RankMemory {
  int rank;
  std::vector<AllocatorEvent> events;  ///< in order
};

/// What PyTorch would record of memory that is exact: each allocation is a segment of its own, and what is freed goes back.
/// Replayed, the segments and the blocks both come to the ledger's peak.
std::vector<AllocatorEvent> exact_events(std::vector<LedgerEntry>);

/// Every block has a stack of four frames (band, unit, verb, scheme) in place of Python's; `unit_names` may be empty. The segments
/// are those that the events leave. Times are microseconds from `origin` on.
void write_memory_snapshot(std::ostream&, const std::string& scheme, const std::vector<std::string>& unit_names, double origin,
                           const std::vector<RankMemory>&);

}  // namespace shardsim::formats
