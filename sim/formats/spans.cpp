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

CollectiveNames names_of(Verb collective) {
  switch (collective) {
    case Verb::all_gather:
      return {"_allgather_base", "nccl:_all_gather_base"};
    case Verb::reduce_scatter:
      return {"_reduce_scatter_base", "nccl:_reduce_scatter_base"};
    case Verb::broadcast:
      return {"broadcast", "nccl:broadcast"};
    case Verb::reduce:
      return {"reduce", "nccl:reduce"};
    case Verb::all_to_all:
      return {"all_to_all", "nccl:all_to_all"};
    default:
      return {"allreduce", "nccl:all_reduce"};
  }
}

}  // namespace shardsim::formats
