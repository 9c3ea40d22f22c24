// The host's row: calls in the order in which they were made, grouped into operators.
#include "formats/trace_host.h"

#include <algorithm>

#include "core/op.h"
#include "formats/spans.h"

namespace shardsim::formats {
namespace {

constexpr int first_host = 1 << 24;  // no GPU has such a number

const char* call_name(const Span& span) {
  if (span.op == Span::collective) return "cudaLaunchKernelExC";
  return is_memset(span) ? "cudaMemsetAsync" : "cudaLaunchKernel";
}

const char* name_of(HostWait::Until until) {
  constexpr const char* names[] = {"cudaDeviceSynchronize", "cudaEventSynchronize", "launch queue is full"};
  return names[unsigned(until)];
}

/// A launch, or a wait where there is no span.
struct Call {
  double begin, end;
  const Span* span;
  long long correlation;
  const HostWait* wait;
};

std::vector<Call> calls_of(const RankTrace& trace, const std::vector<Span>& spans, long long first) {
  std::vector<Call> calls;
  for (std::size_t i = 0; i < spans.size(); ++i)
    if (is_launched(spans[i]))
      calls.push_back({spans[i].issue_begin, spans[i].issue_end, &spans[i], first + (long long)i, nullptr});
  for (const HostWait& wait : trace.waits) calls.push_back({wait.begin, wait.end, nullptr, 0, &wait});
  std::stable_sort(calls.begin(), calls.end(), [](const Call& a, const Call& b) { return a.begin < b.begin; });
  return calls;
}

}  // namespace

std::string name_of_work(const Span& span, const std::vector<std::string>& unit_names) {
  const std::string unit = span.unit < 0                                ? ""
                           : std::size_t(span.unit) < unit_names.size() ? " " + unit_names[std::size_t(span.unit)]
                                                                        : " u" + std::to_string(span.unit);
  return shardsim::name_of(span.verb) + unit;
}

void write_host(TraceEvents& writer, const TraceFacts& facts, const RankTrace& trace, const std::vector<Span>& spans,
                long long first) {
  const std::vector<Call> calls = calls_of(trace, spans, first);
  if (calls.empty()) return;
  const int host = first_host + trace.rank, row = host;
  writer.metadata(host, "process_name", 0, R"("name": "rank )" + std::to_string(trace.rank) + R"( host")");
  writer.metadata(host, "process_labels", 0, R"("labels": "CPU")");
  writer.metadata(host, "process_sort_index", 0, R"("sort_index": )" + std::to_string(trace.rank));
  writer.metadata(host, "thread_name", row, R"("name": "launches")");

  for (std::size_t step = 0; step < trace.host_step_begin.size(); ++step) {
    const bool is_last = step + 1 == trace.host_step_begin.size();
    const double end = is_last ? std::max(trace.step_end.back(), calls.back().end) : trace.host_step_begin[step + 1];
    writer.slice(host, row, "ProfilerStep#" + std::to_string(step), "user_annotation",
                 writer.nanoseconds(trace.host_step_begin[step]), writer.nanoseconds(end), "");
  }

  const auto belong_together = [&](const Call& a, const Call& b) {
    return a.span && b.span && a.span->verb == b.span->verb && a.span->unit == b.span->unit && a.span->op != Span::collective &&
           b.span->op != Span::collective && step_of(a.begin, trace.host_step_begin) == step_of(b.begin, trace.host_step_begin);
  };
  for (std::size_t i = 0; i < calls.size();) {
    std::size_t end = i + 1;
    while (end < calls.size() && belong_together(calls[i], calls[end])) ++end;
    if (const Span* span = calls[i].span) {
      const std::string id = R"("External id": )" + std::to_string(calls[i].correlation);
      writer.slice(host, row, span->op == Span::collective ? names_of(span->moves).launched : name_of_work(*span, facts.unit_names),
                   "cpu_op", writer.nanoseconds(calls[i].begin), writer.nanoseconds(calls[end - 1].end), id);
      for (std::size_t k = i; k < end; ++k)
        writer.slice(host, row, call_name(*calls[k].span), "cuda_runtime", writer.nanoseconds(calls[k].begin),
                     writer.nanoseconds(calls[k].end), id + R"(, "correlation": )" + std::to_string(calls[k].correlation));
      for (std::size_t k = i; k < end; ++k)
        writer.flow("ac2g", "ac2g", host, row, writer.nanoseconds(calls[k].begin), trace.rank, stream_number(calls[k].span->lane),
                    writer.nanoseconds(calls[k].span->begin));
    } else {
      writer.slice(host, row, name_of(calls[i].wait->until), "cuda_runtime", writer.nanoseconds(calls[i].begin),
                   writer.nanoseconds(calls[i].end), "");
    }
    i = end;
  }
}

}  // namespace shardsim::formats
