// timeline.csv: slices, merged where nothing lies between them.
#include "formats/timeline.h"

#include <algorithm>
#include <ostream>

#include "formats/csv.h"

namespace shardsim::formats {
namespace {

struct Slice {
  Span span;
  int ops = 1;
};

bool continues(const Span& before, const Span& after) {
  const bool computes = before.op != Span::collective && after.op != Span::collective;
  return computes && before.lane == after.lane && before.verb == after.verb && before.unit == after.unit &&
         before.end == after.begin;
}

}  // namespace

void write_timeline_header(std::ostream& out) {
  out << "rank,stream,verb,unit,ops,begin_seconds,end_seconds,buffer_bytes,sent_bytes,payload\n";
}

void write_timeline(std::ostream& out, int rank, const std::vector<Span>& spans, double begin, double end) {
  std::vector<Span> inside;
  for (const Span& span : spans)
    if (span.end > begin && span.begin < end) inside.push_back(span);
  std::stable_sort(inside.begin(), inside.end(),
                   [](const Span& a, const Span& b) { return a.lane != b.lane ? a.lane < b.lane : a.begin < b.begin; });
  std::vector<Slice> slices;
  for (const Span& span : inside)
    if (!slices.empty() && continues(slices.back().span, span)) slices.back().span.end = span.end, ++slices.back().ops;
    else slices.push_back({span});
  for (const auto& [span, ops] : slices)
    out << rank << ',' << name_of(span.lane) << ',' << name_of(span.verb) << ',' << span.unit << ',' << ops << ','
        << number_text(span.begin) << ',' << number_text(span.end) << ',' << span.size << ',' << span.bytes << ','
        << (span.op != Span::collective ? "compute"
            : span.control              ? "control"
                                        : "data")
        << '\n';
}

}  // namespace shardsim::formats
