// trace.json: written event by event, since a trace may hold millions.
#include "formats/trace.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>

#include "core/op.h"

namespace shardsim::formats {
namespace {

constexpr int step_row = lane_count;  // the thread after the streams

class Writer {
 public:
  Writer(std::ostream& out, double origin) : out_(out), origin_(origin) {}

  long long nanoseconds(double seconds) const { return std::llround((seconds - origin_) * 1e9); }

  void metadata(int rank, const char* what, int row, const std::string& args) {
    begin();
    out_ << R"({"ph": "M", "name": ")" << what << R"(", "pid": )" << rank << R"(, "tid": )" << row << R"(, "ts": 0, "args": {)"
         << args << "}}";
  }

  /// Rounded at both ends, so that slices which follow one another still do.
  void slice(int rank, int row, const std::string& name, const char* category, long long begin_ns, long long end_ns,
             const std::string& args) {
    begin();
    out_ << R"({"ph": "X", "cat": ")" << category << R"(", "name": ")" << name << R"(", "pid": )" << rank << R"(, "tid": )" << row
         << R"(, "ts": )" << microseconds(begin_ns) << R"(, "dur": )" << microseconds(end_ns - begin_ns) << R"(, "args": {)" << args
         << "}}";
  }

  void counter(int rank, long long at_ns, const std::int64_t (&held)[band_count]) {
    begin();
    out_ << R"({"ph": "C", "name": "memory by band", "pid": )" << rank << R"(, "tid": 0, "ts": )" << microseconds(at_ns)
         << R"(, "args": {)";
    for (int band = 0; band < band_count; ++band)
      out_ << (band ? ", " : "") << '"' << name_of(Band(band)) << R"(": )" << held[band];
    out_ << "}}";
  }

 private:
  void begin() {
    out_ << (first_ ? "\n" : ",\n");
    first_ = false;
  }
  static std::string microseconds(long long ns) {
    char text[40];
    std::snprintf(text, sizeof text, "%lld.%03lld", ns / 1000, ns % 1000);
    return text;
  }

  std::ostream& out_;
  double origin_;
  bool first_ = true;
};

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

void write_names(Writer& writer, const RankTrace& trace) {
  const std::string rank = std::to_string(trace.rank);
  writer.metadata(trace.rank, "process_name", 0, R"("name": "rank )" + rank + '"');
  writer.metadata(trace.rank, "process_labels", 0, R"("labels": "GPU )" + rank + '"');
  writer.metadata(trace.rank, "process_sort_index", 0, R"("sort_index": )" + rank);
  for (int row = 0; row <= step_row; ++row) {
    const std::string name = row == step_row ? "steps" : "stream " + std::to_string(row) + " (" + name_of(Lane(row)) + ")";
    writer.metadata(trace.rank, "thread_name", row, R"("name": ")" + name + '"');
    // Steps on top.
    writer.metadata(trace.rank, "thread_sort_index", row, R"("sort_index": )" + std::to_string(row == step_row ? -1 : row));
  }
}

std::string name_of_slice(const Span& span) {
  const std::string unit = span.unit < 0 ? "" : " u" + std::to_string(span.unit);
  // "nccl" is how trace tools tell communication from computation.
  if (span.op == Span::collective) return std::string("nccl:") + name_of(span.verb) + (span.control ? " (control)" : "") + unit;
  return std::string(name_of(span.verb)) + unit + ": " + op_name(span.op);
}

void write_slices(Writer& writer, const RankTrace& trace, int world) {
  std::vector<Span> spans = trace.spans;
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  for (const Span& span : spans) {
    std::string args = R"("stream": )" + std::to_string(unsigned(span.lane)) + R"(, "unit": )" + std::to_string(span.unit);
    if (span.op == Span::collective)
      args += std::string(R"(, "Collective name": ")") + name_of(span.verb) + R"(", "Group size": )" + std::to_string(world) +
              R"(, "buffer_bytes": )" + std::to_string(span.size) + R"(, "sent_bytes": )" + std::to_string(span.bytes);
    writer.slice(trace.rank, int(span.lane), name_of_slice(span), "kernel", writer.nanoseconds(span.begin),
                 writer.nanoseconds(span.end), args);
  }
  long long end = 0;
  for (std::size_t step = 0; step < trace.step_end.size(); ++step) {
    // Without a barrier a step may begin on one stream before the last one has ended on another.
    const long long begin = std::max(end, writer.nanoseconds(trace.step_begin[step]));
    end = std::max(begin, writer.nanoseconds(trace.step_end[step]));
    writer.slice(trace.rank, step_row, "ProfilerStep#" + std::to_string(step), "user_annotation", begin, end, "");
  }
}

void write_memory_counter(Writer& writer, const RankTrace& trace) {
  std::vector<LedgerEntry> entries = trace.entries;
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  std::int64_t held[band_count] = {};
  for (std::size_t i = 0; i < entries.size(); ++i) {
    held[unsigned(entries[i].band)] += entries[i].bytes;
    const long long at = writer.nanoseconds(entries[i].seconds);
    // A viewer shows the last sample of an instant; the others would only be bytes in the file.
    if (i + 1 == entries.size() || writer.nanoseconds(entries[i + 1].seconds) != at) writer.counter(trace.rank, at, held);
  }
}

}  // namespace

void write_trace(std::ostream& out, const std::string& scheme, int world, const std::vector<RankTrace>& traces) {
  double origin = 0;
  for (const RankTrace& trace : traces) {
    for (const Span& span : trace.spans) origin = std::min(origin, span.begin);
    for (const LedgerEntry& entry : trace.entries) origin = std::min(origin, entry.seconds);
  }
  out << R"({"schemaVersion": 1, "displayTimeUnit": "ms", "traceName": )" << quoted(scheme) << R"(, "deviceProperties": [], )"
      << R"("distributedInfo": {"backend": "nccl", "rank": )" << (traces.empty() ? 0 : traces.front().rank) << R"(, "world_size": )"
      << world << R"(}, "traceEvents": [)";
  Writer writer(out, origin);
  for (const RankTrace& trace : traces) {
    write_names(writer, trace);
    write_slices(writer, trace, world);
    write_memory_counter(writer, trace);
  }
  out << "\n]}\n";
}

}  // namespace shardsim::formats
