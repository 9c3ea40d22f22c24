// The host's row of a trace: what the rank's program launched, and where it waited.
#pragma once
#include <string>
#include <vector>

#include "formats/trace.h"
#include "formats/trace_events.h"

namespace shardsim::formats {

/// Whether the host's side of it is known: then it has a correlation, which kernel and launch have in common.
inline bool is_launched(const Span& span) { return !std::isnan(span.issue_begin); }

/// A process beside the GPU's with one thread: ProfilerStep annotations, in them operators (consecutive launches in the name of one
/// verb and unit), in them the runtime's calls; an arrow from each launch to its kernel. Span i has the correlation `first` + i.
void write_host(TraceEvents&, const TraceFacts&, const RankTrace&, const std::vector<Span>&, long long first);

/// "forward block3", "adam".
std::string name_of_work(const Span&, const std::vector<std::string>& unit_names);

}  // namespace shardsim::formats
