// The scenario's `collectives`: which algorithm and protocol they use, and what was measured of them.
#pragma once
#include "app/fields.h"
#include "app/scenario.h"

namespace shardsim {

/// Fills collectives. Call it when fabric and latency are known: `fabric: ring` is a ring of real messages and takes no such rules;
/// an algorithm or a protocol is a matter of `latency: nccl`. Measured values are noted for the printout.
void read_collectives(const Fields& root, Scenario&);

}  // namespace shardsim
