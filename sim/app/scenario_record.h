// Reading a scenario's `record:`, what a run keeps of its events: of which ranks, in which files.
#pragma once
#include "app/fields.h"
#include "app/scenario.h"

namespace shardsim {

/// Fills recorded_ranks, records_spans, records_theta, trace_per_rank and trace_gzip. The world has to be known.
void read_record(const Fields& root, Scenario&);

}  // namespace shardsim
