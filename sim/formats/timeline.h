// timeline.csv: the slices of a run's last step, drawn by the report and the figures. Half of what a trace has, in a tenth of it.
#pragma once
#include <iosfwd>
#include <vector>

#include "core/recorder.h"

namespace shardsim::formats {

/// rank,stream,verb,unit,ops,begin_seconds,end_seconds,buffer_bytes,sent_bytes,payload: what ran on each stream between `begin` and
/// `end`, in time order. Operations of one verb and unit that follow each other without a gap are one row; `ops` counts them. The
/// payload of a collective is data or control, that of operations compute. Unit -1: no unit.
void write_timeline_header(std::ostream&);
void write_timeline(std::ostream&, int rank, const std::vector<Span>&, double begin, double end);

}  // namespace shardsim::formats
