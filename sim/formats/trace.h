// trace.json: a Chrome trace with the conventions of PyTorch's profiler (Kineto), for Perfetto, chrome://tracing, TensorBoard and
// HolisticTraceAnalysis.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "core/ledger.h"
#include "core/recorder.h"

namespace shardsim::formats {

/// What all traces of a run have in common.
struct TraceFacts {
  std::string scheme;
  int world = 1;
  std::string gpu;                      ///< its name
  std::int64_t gpu_memory = 0;          ///< bytes; 0: not known
  std::vector<std::string> unit_names;  ///< may be empty: then a unit goes by its number
  double origin = 0;                    ///< the instant that is 0 in the file, in seconds: none is earlier
};

/// One recorded rank; seconds on one clock for all ranks.
struct RankTrace {
  int rank;
  const std::vector<Span>& spans;
  const std::vector<LedgerEntry>& entries;
  const std::vector<double>&step_begin, &step_end;
  const std::vector<HostWait>& waits;
  const std::vector<double>& host_step_begin;
  std::string stands_for = {};  ///< the ranks that are simulated as this one, if there are such
};

/// When the first of them begins, and not after 0: the ranks of a run share an origin, so that their files can be laid together.
double earliest(const std::vector<RankTrace>&);

/// The number under which a lane appears as a stream; PyTorch's compute stream is 7 in such traces.
constexpr int stream_number(Lane lane) { return 7 + int(lane); }

/// A fill is a cudaMemset there.
bool is_memset(const Span&);

/// One process per rank, one thread per stream, a row of ProfilerStep annotations, and memory counters: by band, and in all; and a
/// process for the rank's host, where the device tells what it did.
/// Collectives have NCCL's kernel names and the profiler's arguments; a flow leads from each gather to the first operation that
/// uses the unit. Timestamps are in microseconds from the origin on, cut to nanoseconds, and slices of a row never
/// overlap. distributedInfo speaks of the first rank: HolisticTraceAnalysis wants a file per rank.
void write_trace(std::ostream&, const TraceFacts&, const std::vector<RankTrace>&);

}  // namespace shardsim::formats
