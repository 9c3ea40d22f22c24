// What the files that list spans have in common: their order, their step, and the names of groups.
#pragma once
#include <string>
#include <vector>

#include "core/recorder.h"

namespace shardsim::formats {

std::vector<Span> in_time_order(std::vector<Span>);

/// The last step that had begun on the compute stream by then; -1 before the first.
int step_of(double seconds, const std::vector<double>& step_begin);

/// "0-7" for the ranks 0 to 7, "1-13 by 4" for 1, 5, 9, 13; "3" for rank 3 alone.
std::string group_text(const Group&);

/// A collective as PyTorch's process groups record it, and the operator that launches it there.
struct CollectiveNames {
  const char *recorded, *launched;
};
CollectiveNames names_of(Verb collective);

}  // namespace shardsim::formats
