// CSV files of a run.
#include "formats/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ostream>

#include "core/op.h"
#include "formats/held.h"
#include "formats/spans.h"

namespace shardsim::formats {

std::string field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";  // to_chars would tell -nan from nan
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

void write_steps_header(std::ostream& out) { out << "scheme,step,loss,begin_seconds,end_seconds,loss_scale,skipped\n"; }

void write_steps(std::ostream& out, const std::string& scheme, const std::vector<double>& losses, const std::vector<double>& begin,
                 const std::vector<double>& end, const std::vector<float>& loss_scales, const std::vector<float>& updates) {
  for (std::size_t step = 0; step < end.size(); ++step)
    out << field(scheme) << ',' << step << ',' << (step < losses.size() ? number_text(losses[step]) : "") << ','
        << number_text(begin[step]) << ',' << number_text(end[step]) << ','
        << (step < loss_scales.size() ? number_text(double(loss_scales[step])) : "") << ','
        << (step < updates.size() ? (updates[step] == (step ? updates[step - 1] : 0.f) ? "1" : "0") : "") << '\n';
}

void write_memory_header(std::ostream& out) { out << "rank,seconds,band,unit,cause,bytes,held_in_band_bytes,held_bytes\n"; }

void write_memory(std::ostream& out, int rank, const std::vector<LedgerEntry>& entries) {
  std::vector<LedgerEntry> sorted = entries;
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  std::int64_t in_band[band_count] = {}, held = 0;
  for (const LedgerEntry& entry : sorted) {
    in_band[unsigned(entry.band)] += entry.bytes, held += entry.bytes;
    out << rank << ',' << number_text(entry.seconds) << ',' << name_of(entry.band) << ',' << entry.unit << ','
        << name_of(entry.cause) << ',' << entry.bytes << ',' << in_band[unsigned(entry.band)] << ',' << held << '\n';
  }
}

void write_memory_by_band_header(std::ostream& out) {
  out << "rank,seconds";
  for (int band = 0; band < band_count; ++band) out << ',' << name_of(Band(band)) << "_bytes";
  out << ",total_bytes\n";
}

void write_memory_by_band(std::ostream& out, int rank, const std::vector<LedgerEntry>& entries) {
  for (const Held& held : held_over_time(entries)) {
    out << rank << ',' << number_text(held.seconds);
    for (const std::int64_t bytes : held.bytes) out << ',' << bytes;
    out << ',' << held.total << '\n';
  }
}

void write_collectives_header(std::ostream& out) {
  out << "rank,stream,verb,unit,begin_seconds,end_seconds,buffer_bytes,sent_bytes,payload,step,collective,dtype,group,group_size\n";
}

void write_collectives(std::ostream& out, int rank, const std::vector<Span>& spans, const std::vector<double>& step_begin) {
  for (const Span& span : in_time_order(spans)) {
    if (span.op != Span::collective) continue;
    out << rank << ',' << name_of(span.lane) << ',' << name_of(span.verb) << ',' << span.unit << ',' << number_text(span.begin)
        << ',' << number_text(span.end) << ',' << span.size << ',' << span.bytes << ',' << (span.control ? "control" : "data")
        << ',' << step_of(span.begin, step_begin) << ',' << name_of(span.moves) << ',' << name_of(span.dtype) << ','
        << group_text(span.group) << ',' << span.group.size << '\n';
  }
}

void write_spans_header(std::ostream& out) { out << "rank,step,stream,verb,unit,op,begin_seconds,end_seconds\n"; }

void write_spans(std::ostream& out, int rank, const std::vector<Span>& spans, const std::vector<double>& step_begin) {
  for (const Span& span : in_time_order(spans))
    out << rank << ',' << step_of(span.begin, step_begin) << ',' << name_of(span.lane) << ',' << name_of(span.verb) << ','
        << span.unit << ',' << (span.op == Span::collective ? name_of(span.moves) : op_name(span.op)) << ','
        << number_text(span.begin) << ',' << number_text(span.end) << '\n';
}

void write_links_header(std::ostream& out) { out << "link,bytes\n"; }

void write_link(std::ostream& out, const std::string& link, double bytes) {
  out << field(link) << ',' << number_text(bytes) << '\n';
}

}  // namespace shardsim::formats
