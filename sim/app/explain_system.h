// Explain a system: the timeline of a step of a real system, and what it holds, from a trial on GPT-2.
#pragma once
#include <string>
#include <vector>

#include "core/registry.h"

namespace shardsim {

/// Some lines of a timeline that follow each other `times` times, differing in their numbers only.
struct TimelineRun {
  std::size_t begin = 0, lines = 1, times = 1;
};

/// The timeline as runs; what comes once is a run of its own. Entries that differ in their numbers only are of one kind.
std::vector<TimelineRun> folded(const std::vector<TimelineEntry>&);

/// The timeline of a steady step, and resident and peak by band.
std::string explain_system(const SchemeChoice&);
/// Two schemes, one of them a real system: the figures of both, and the lines in which their timelines differ.
std::string explain_systems(const SchemeChoice&, const SchemeChoice&);

}  // namespace shardsim
