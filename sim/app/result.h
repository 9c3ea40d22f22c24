// Result: what came out of running one scheme of a scenario, before it is summed up.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/allocator_event.h"
#include "core/crossing.h"
#include "core/ledger.h"
#include "core/recorder.h"
#include "core/scheme.h"
#include "core/unit.h"
#include "cost/gpu.h"
#include "cost/notes.h"

namespace shardsim {

/// What a rank had sent, and moved over its host's link, at some date of the run.
struct Moved {
  std::int64_t traffic_bytes = 0, control_bytes = 0;
  Crossing crossed;
};

struct RankResult {
  int rank = 0, ranks = 1;                   ///< and how many it stands for, itself included
  std::string stands_for;                    ///< "0-5, 7": which; empty where every rank is simulated
  std::vector<float> loss_scales;            ///< per step, in force after it; empty without loss scaling
  std::vector<float> updates;                ///< per step, how many were not skipped so far; empty without loss scaling
  std::vector<float> losses;                 ///< per step; empty without numerics
  std::vector<double> step_begin, step_end;  ///< seconds from the start of the first step
  Peak peak, model_state_peak;
  AllocatorBooks allocator;
  Composition resident;  ///< held between steps, by band, unit and cause
  Peak host_peak;        ///< of the host's memory, as is the next
  Composition host_resident;
  Crossing crossed;                                   ///< between the host and the GPU over the whole run
  std::int64_t traffic_bytes = 0, control_bytes = 0;  ///< sent over the whole run
  Moved unsteady;                                     ///< of that, before the first steady step
  std::vector<Span> spans;                            ///< recorded ranks only; seconds as above
  std::vector<HostWait> waits;                        ///< the host's; recorded ranks only
  std::vector<double> host_step_begin;                ///< when the host began to enqueue each step
  std::vector<LedgerEntry> entries;                   ///< recorded ranks only; seconds as above (bind is before 0)
  std::vector<AllocatorEvent> allocator_history;      ///< recorded ranks only, with an emulated allocator; seconds as above

  /// Whether it is in traces and CSVs, and its times in the figures.
  bool is_recorded() const { return !spans.empty() || !entries.empty(); }
};

struct LinkLoad {
  std::string link;
  double bytes;
};

struct SchemeResult {
  std::string scheme, backend;
  int world = 1;
  int steps = 0;  ///< finished; fewer than asked when interrupted
  int first_steady = 0;  ///< the first, from 0 on, of the steps that figures per step are of; all count where they overlap
  ShardSet shard;
  bool has_closed_forms = true;
  int shards = 1;                             ///< ranks that share one copy of what is sharded
  std::int64_t parameters = 0, padding = 0;   ///< charged elements; padding over all units
  std::vector<std::int64_t> unit_parameters;  ///< charged, without padding
  std::vector<std::string> unit_names;        ///< of a textbook scheme's units, after their modules; empty for others
  std::vector<RankResult> ranks;              ///< those that were simulated, in order; all, unless they are folded
  std::string folding;                        ///< in a line, which ranks stand for which or why none does; empty for `ranks: all`
  std::vector<float> theta;                   ///< fp32, model order, without padding; empty without numerics
  std::vector<cost::PriceNote> notes;         ///< what a rank was charged, if the scenario asks for it (simgrid)
  int noted_rank = 0;                         ///< the rank that was simulated for it
  std::string noted_for;                      ///< "0-3, 5-7": the ranks that have its GPU; empty: all have
  std::vector<TimelineEntry> timeline;        ///< of rank 0 in the last step, if the scenario asks for it and the scheme tells it
  std::vector<LinkLoad> links;                ///< bytes that crossed each link (simgrid)
  Gpu gpu;
  bool interrupted = false;

  /// Of a rank that was simulated.
  const RankResult& of(int rank) const {
    return *std::lower_bound(ranks.begin(), ranks.end(), rank, [](const RankResult& r, int wanted) { return r.rank < wanted; });
  }
};

}  // namespace shardsim
