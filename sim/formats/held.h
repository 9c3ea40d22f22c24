// What a rank holds over time, band by band: the curve that its allocations and releases draw.
#pragma once
#include <array>
#include <vector>

#include "core/ledger.h"

namespace shardsim::formats {

struct Held {
  double seconds;
  std::array<std::int64_t, band_count> bytes;
  std::int64_t total;
};

/// In time order, one sample per nanosecond in which something changes: what is held after it. Where more was held within the
/// nanosecond, that is a sample before: the largest total is the ledger's peak.
std::vector<Held> held_over_time(std::vector<LedgerEntry>);

}  // namespace shardsim::formats
