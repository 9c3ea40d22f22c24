// trace.json: the rows of each GPU; those of its host are in trace_host.
#include "formats/trace.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>

#include "core/op.h"
#include "formats/held.h"
#include "formats/spans.h"
#include "formats/trace_events.h"
#include "formats/trace_host.h"

namespace shardsim::formats {
namespace {

constexpr int step_row = 0;                // the thread that no stream has
constexpr int first_gpu_sorted = 1 << 24;  // the profiler's sort index of GPU 0: behind all processes of the host

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

// ---- collectives, in PyTorch's and NCCL's words

/// NCCL builds a kernel per collective, operation and type, named RING_LL whatever protocol it then runs; all-reduces have one of
/// their own for trees. Source: NVIDIA/nccl, src/device/generate.py (best_kernel).
std::string kernel_name(const Span& span) {
  constexpr const char* types[] = {"f32", "bf16", "f16", "i64", "u8", "i8"};
  static_assert(std::size(types) == dtype_count);
  if (span.moves == Verb::all_to_all) return "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";
  const std::string type = types[unsigned(span.dtype)];
  const std::string what = span.moves == Verb::all_gather       ? "AllGather"
                           : span.moves == Verb::broadcast      ? "Broadcast"
                           : span.moves == Verb::reduce_scatter ? "ReduceScatter_Sum_" + type
                           : span.moves == Verb::reduce         ? "Reduce_Sum_" + type
                                                                : "AllReduce_Sum_" + type;
  return "ncclDevKernel_" + what + (span.tree ? "_TREE_LL" : "_RING_LL") + "(ncclDevKernelArgsStorage<4096ul>)";
}

const char* type_name(Dtype type) {
  constexpr const char* names[] = {"Float", "BFloat16", "Half", "Long", "Byte", "Char"};
  static_assert(std::size(names) == dtype_count);
  return names[unsigned(type)];
}

std::string group_name(const Group& group, int world) { return group.size == world ? "0" : group_text(group); }

const char* group_description(const Group& group, int world) {
  return group.size == world ? "default_pg" : group.stride == 1 ? "mesh_shard" : "mesh_replicate";
}

std::string ranks_text(const Group& group, int most) {
  std::string text = "[" + std::to_string(group.first);
  for (int member = 1; member < std::min(group.size, most); ++member) text += ", " + std::to_string(group.rank(member));
  return text + (group.size > most ? ", ...]" : "]");
}

std::string collective_args(const Span& span, int world, int sequence) {
  const std::int64_t whole = span.size / bytes_of(span.dtype), part = whole / span.group.size;
  const auto number = [](const char* key, std::int64_t value) {
    return R"(, ")" + std::string(key) + R"(": )" + std::to_string(value);
  };
  const auto text = [](const char* key, const std::string& value) { return R"(, ")" + std::string(key) + R"(": ")" + value + '"'; };
  constexpr int most = 30;  // as in the profiler, which leaves out ranks of larger groups
  return text("Collective name", names_of(span.moves).recorded) +
         number("In msg nelems", span.moves == Verb::all_gather ? part : whole) +
         number("Out msg nelems", span.moves == Verb::reduce_scatter ? part : whole) + number("Group size", span.group.size) +
         text("dtype", type_name(span.dtype)) + text("Process Group Name", group_name(span.group, world)) +
         text("Process Group Description", group_description(span.group, world)) +
         text("Process Group Ranks", ranks_text(span.group, most)) + number("Seq", sequence) + number("buffer_bytes", span.size) +
         number("sent_bytes", span.bytes) + (span.control ? R"(, "payload": "control")" : "");
}

// ---- a rank

void write_names(TraceEvents& writer, const RankTrace& trace) {
  const std::string rank = std::to_string(trace.rank);
  writer.metadata(trace.rank, "process_name", 0,
                  R"("name": "rank )" + rank + (trace.stands_for.empty() ? "" : ", for " + trace.stands_for) + '"');
  writer.metadata(trace.rank, "process_labels", 0, R"("labels": "GPU )" + rank + '"');
  writer.metadata(trace.rank, "process_sort_index", 0, R"("sort_index": )" + std::to_string(first_gpu_sorted + trace.rank));
  writer.metadata(trace.rank, "thread_name", step_row, R"("name": "steps")");
  writer.metadata(trace.rank, "thread_sort_index", step_row, R"("sort_index": 0)");
  std::set<Lane> used;
  for (const Span& span : trace.spans) used.insert(span.lane);
  for (const Lane lane : used) {
    const std::string number = std::to_string(stream_number(lane));
    writer.metadata(trace.rank, "thread_name", stream_number(lane), R"("name": "stream )" + number + " " + name_of(lane) + '"');
    writer.metadata(trace.rank, "thread_sort_index", stream_number(lane), R"("sort_index": )" + number);
  }
}

/// Span i has the correlation `first` + i.
void write_slices(TraceEvents& writer, const RankTrace& trace, const TraceFacts& facts, const std::vector<Span>& spans,
                  long long first) {
  std::map<std::pair<std::string, Lane>, int> sequences;  // of each communicator
  std::map<int, const Span*> gathered;                    // by unit, and not used yet
  for (const Span& span : spans) {
    const int row = stream_number(span.lane);
    const long long begin = writer.nanoseconds(span.begin);
    const bool moves = span.op == Span::collective;
    std::string args = R"("device": )" + std::to_string(trace.rank) + R"(, "context": 1, "stream": )" + std::to_string(row) +
                       R"(, "step": )" + std::to_string(step_of(span.begin, trace.step_begin)) + R"(, "verb": ")" +
                       name_of(span.verb) + R"(", "unit": )" + std::to_string(span.unit);
    if (is_launched(span)) args += R"(, "correlation": )" + std::to_string(first + (&span - spans.data()));
    if (moves) args += collective_args(span, facts.world, sequences[{group_text(span.group), span.lane}]++);
    writer.slice(trace.rank, row,
                 moves             ? kernel_name(span)
                 : is_memset(span) ? "Memset (Device)"
                                   : name_of_work(span, facts.unit_names) + ": " + op_name(span.op),
                 is_memset(span) ? "gpu_memset" : "kernel", begin, writer.nanoseconds(span.end), args);
    if (moves && span.moves == Verb::all_gather && !span.control) gathered[span.unit] = &span;
    const auto waiting = moves ? gathered.end() : gathered.find(span.unit);
    if (waiting == gathered.end() || span.begin < waiting->second->end) continue;
    writer.flow("gather to first use", "gather_to_use", trace.rank, stream_number(waiting->second->lane),
                writer.nanoseconds(waiting->second->begin), trace.rank, row, begin);
    gathered.erase(waiting);
  }
  long long end = 0;
  for (std::size_t step = 0; step < trace.step_end.size(); ++step) {
    // Without a barrier a step may begin on one stream before the last one has ended on another.
    const long long begin = std::max(end, writer.nanoseconds(trace.step_begin[step]));
    end = std::max(begin, writer.nanoseconds(trace.step_end[step]));
    // The host's row has it as user_annotation, as the profiler does.
    writer.slice(trace.rank, step_row, "ProfilerStep#" + std::to_string(step), "gpu_user_annotation", begin, end, "");
  }
}

void write_counters(TraceEvents& writer, int rank, const Held& held) {
  const long long at = writer.nanoseconds(held.seconds);
  std::string bands;
  for (int band = 0; band < band_count; ++band)
    bands += (band ? ", \"" : "\"") + std::string(name_of(Band(band))) + "\": " + std::to_string(held.bytes[band]);
  writer.counter(rank, "memory by band (bytes)", bands, at);
  writer.counter(rank, "memory (bytes)", R"("total": )" + std::to_string(held.total), at);
}

// ---- the top

std::string process_groups(const std::vector<RankTrace>& traces, int world) {
  std::map<std::string, Group> groups{{"0", {0, 1, world, 0}}};
  for (const RankTrace& trace : traces)
    for (const Span& span : trace.spans)
      if (span.op == Span::collective) groups.emplace(group_name(span.group, world), span.group);
  std::string list;
  for (const auto& [name, group] : groups)
    list += (list.empty() ? "" : ", ") + (R"({"pg_name": ")" + name + R"(", "pg_desc": ")") + group_description(group, world) +
            R"(", "backend_config": "cuda:nccl", "pg_size": )" + std::to_string(group.size) + R"(, "ranks": )" +
            ranks_text(group, group.size) + "}";
  return R"("pg_count": )" + std::to_string(groups.size()) + R"(, "pg_config": [)" + list + "]";
}

void write_head(std::ostream& out, const TraceFacts& facts, const std::vector<RankTrace>& traces) {
  out << R"({"schemaVersion": 1, "displayTimeUnit": "ms", "baseTimeNanoseconds": 0, "traceName": )" << quoted(facts.scheme)
      << R"(, "deviceProperties": [)";
  for (const RankTrace& trace : traces)
    out << (&trace == &traces.front() ? "" : ", ") << R"({"id": )" << trace.rank << R"(, "name": )" << quoted(facts.gpu)
        << R"(, "totalGlobalMem": )" << facts.gpu_memory << '}';
  out << R"(], "distributedInfo": {"backend": "nccl", "rank": )" << (traces.empty() ? 0 : traces.front().rank)
      << R"(, "world_size": )" << facts.world << ", " << process_groups(traces, facts.world) << R"(, "nccl_version": "simulated"})";
}

}  // namespace

bool is_memset(const Span& span) { return span.op != Span::collective && op_name(span.op) == std::string("fill"); }

double earliest(const std::vector<RankTrace>& traces) {
  double origin = 0;
  for (const RankTrace& trace : traces) {
    for (const Span& span : trace.spans) origin = std::min({origin, span.begin, is_launched(span) ? span.issue_begin : span.begin});
    for (const HostWait& wait : trace.waits) origin = std::min(origin, wait.begin);
    for (const LedgerEntry& entry : trace.entries) origin = std::min(origin, entry.seconds);
  }
  return origin;
}

void write_trace(std::ostream& out, const TraceFacts& facts, const std::vector<RankTrace>& traces) {
  write_head(out, facts, traces);
  out << R"(, "traceEvents": [)";
  TraceEvents writer(out, facts.origin);
  long long correlation = 1;
  for (const RankTrace& trace : traces) {
    const std::vector<Span> spans = in_time_order(trace.spans);
    write_names(writer, trace);
    write_slices(writer, trace, facts, spans, correlation);
    write_host(writer, facts, trace, spans, correlation);
    correlation += (long long)spans.size();
    for (const Held& held : held_over_time(trace.entries)) write_counters(writer, trace.rank, held);
  }
  out << "\n]}\n";
}

}  // namespace shardsim::formats
