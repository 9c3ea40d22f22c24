// CSV files of a run: steps, memory, collectives and links. One header line; seconds and bytes as plain numbers.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "core/ledger.h"
#include "core/recorder.h"

namespace shardsim::formats {

/// The shortest text that reads back as the same double; "nan", "inf" and "-inf".
std::string number_text(double);

/// A cell: in quotes where a comma, quote or line break would break the row.
std::string field(const std::string& text);

/// scheme,step,loss,begin_seconds,end_seconds,loss_scale,skipped; an empty loss where there is no arithmetic, an empty loss_scale
/// (in force after the step) and skipped (0 or 1) without loss scaling. `losses`, `loss_scales` and `updates` may be empty.
void write_steps_header(std::ostream&);
void write_steps(std::ostream&, const std::string& scheme, const std::vector<double>& losses, const std::vector<double>& begin,
                 const std::vector<double>& end, const std::vector<float>& loss_scales = {},
                 const std::vector<float>& updates = {});

/// rank,seconds,band,unit,cause,bytes,held_in_band_bytes,held_bytes: every allocation (bytes > 0) and release (bytes < 0), in time
/// order, and what the rank holds after it. Unit -1: no unit.
void write_memory_header(std::ostream&);
void write_memory(std::ostream&, int rank, const std::vector<LedgerEntry>&);

/// rank,seconds,param_bytes,...,workspace_bytes,total_bytes: what the rank holds, band by band, whenever that changes.
void write_memory_by_band_header(std::ostream&);
void write_memory_by_band(std::ostream&, int rank, const std::vector<LedgerEntry>&);

/// rank,stream,verb,unit,begin_seconds,end_seconds,buffer_bytes,sent_bytes,payload,step,collective,dtype,group,group_size: every
/// collective, in time order. Payload is data or control; `verb` says in whose name it runs, `collective` which one it is; for
/// step and group see formats/spans.h.
void write_collectives_header(std::ostream&);
void write_collectives(std::ostream&, int rank, const std::vector<Span>&, const std::vector<double>& step_begin);

/// rank,step,stream,verb,unit,op,begin_seconds,end_seconds: every operation and collective, in time order; op is the operation's
/// name, or the collective's.
void write_spans_header(std::ostream&);
void write_spans(std::ostream&, int rank, const std::vector<Span>&, const std::vector<double>& step_begin);

/// link,bytes: what crossed each link in the whole run.
void write_links_header(std::ostream&);
void write_link(std::ostream&, const std::string& link, double bytes);

}  // namespace shardsim::formats
