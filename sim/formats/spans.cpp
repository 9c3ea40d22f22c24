// Spans: sorting and naming.
#include "formats/spans.h"

#include <algorithm>

namespace shardsim::formats {

std::vector<Span> in_time_order(std::vector<Span> spans) {
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  return spans;
}

int step_of(double seconds, const std::vector<double>& step_begin) {
  return int(std::upper_bound(step_begin.begin(), step_begin.end(), seconds) - step_begin.begin()) - 1;
}

std::string group_text(const Group& group) {
  const std::string first = std::to_string(group.first);
  if (group.size == 1) return first;
  return first + "-" + std::to_string(group.rank(group.size - 1)) +
         (group.stride == 1 ? "" : " by " + std::to_string(group.stride));
}

}  // namespace shardsim::formats
