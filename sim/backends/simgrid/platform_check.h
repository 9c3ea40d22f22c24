// Platform check: what SimGrid would take without a word and shardsim does not model, or what SimGrid would stumble over later.
#pragma once
#include "backends/simgrid/platform_text.h"

namespace shardsim::simgrid_backend {

/// Throws ScenarioError with line, element and remedy: SimGrid's settings, what changes with time, numbers without units, unknown
/// or repeated properties of hosts and zones, too many hosts, and routings that have no routes.
void check(const PlatformText&);

}  // namespace shardsim::simgrid_backend
