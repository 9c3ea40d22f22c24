// trace.json: a Chrome trace in the manner of PyTorch's profiler, for Perfetto, chrome://tracing and HolisticTraceAnalysis.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "core/ledger.h"
#include "core/recorder.h"

namespace shardsim::formats {

/// One recorded rank; seconds on one clock for all ranks.
struct RankTrace {
  int rank;
  const std::vector<Span>& spans;
  const std::vector<LedgerEntry>& entries;
  const std::vector<double>&step_begin, &step_end;
};

/// One process per rank, one thread per stream, a row of ProfilerStep annotations and a memory counter by band. Timestamps are in
/// microseconds from the earliest event on, cut to nanoseconds, and slices of a row never overlap.
void write_trace(std::ostream&, const std::string& scheme, int world, const std::vector<RankTrace>&);

}  // namespace shardsim::formats
