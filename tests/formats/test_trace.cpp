// trace.json: valid JSON with one process per rank and one row per stream, in microseconds, without overlap.
#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "formats/trace.h"

using namespace shardsim;
using nlohmann::json;

namespace {

struct Recorded {
  std::vector<Span> spans;
  std::vector<LedgerEntry> entries;
  std::vector<double> begin, end;
  std::vector<HostWait> waits = {};
  std::vector<double> host_begin = {};
};

json trace_of(const std::vector<Recorded>& ranks) {
  std::vector<formats::RankTrace> traces;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    traces.push_back({int(r), ranks[r].spans, ranks[r].entries, ranks[r].begin, ranks[r].end, ranks[r].waits, ranks[r].host_begin});
  std::ostringstream out;
  formats::write_trace(out, {"ze\"ro", 8, "h100", 80, {"embedding"}, formats::earliest(traces)}, traces);
  return json::parse(out.str());
}

std::vector<json> events(const json& trace, const std::string& phase) {
  std::vector<json> found;
  for (const json& event : trace["traceEvents"])
    if (event["ph"] == phase) found.push_back(event);
  return found;
}

}  // namespace

TEST_CASE("a trace is in microseconds, with one process per rank and one row per stream") {
  const Span forward{0, 2e-6, 0, 0, 4, Lane::compute, Verb::forward, 0, false};
  const Span gather{1e-6,  3.5e-6,           70,          80,    5,           Lane::gather, Verb::all_gather, Span::collective,
                    false, Verb::all_gather, Dtype::bf16, false, {0, 1, 8, 0}};
  const json trace = trace_of({{{forward, gather}, {}, {0}, {4e-6}}, {{forward}, {}, {0}, {4e-6}}});
  CHECK(trace["traceName"] == "ze\"ro");
  CHECK(trace["distributedInfo"]["world_size"] == 8);
  const auto slices = events(trace, "X");
  REQUIRE(slices.size() == 5);  // three spans, and a step on each of two ranks
  CHECK(slices[0]["name"] == "forward u4: matmul");
  CHECK(slices[0]["dur"] == 2.0);
  CHECK(slices[1]["name"] == "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)");
  CHECK(slices[1]["ts"] == 1.0);
  CHECK(slices[1]["dur"] == 2.5);
  CHECK(slices[1]["tid"] != slices[0]["tid"]);
  CHECK(slices[1]["args"]["sent_bytes"] == 70);
  CHECK(slices[2]["name"] == "ProfilerStep#0");
  CHECK(slices[3]["pid"] == 1);
  CHECK(events(trace_of({{{{0, 1e-6, 0, 0, 0, Lane::compute, Verb::adam, 0, false}}, {}, {}, {}}}), "X")[0]["name"] ==
        "adam embedding: matmul");
}

TEST_CASE("what happened before the first step moves the origin, not below zero") {
  const Span forward{0, 1e-6, 0, 0, 0, Lane::compute, Verb::forward, 0, false};
  const json trace = trace_of({{{forward}, {{-2e-6, 100, Band::param, Verb::bind, 0}}, {0}, {1e-6}}});
  CHECK(events(trace, "C")[0]["ts"] == 0.0);
  CHECK(events(trace, "X")[0]["ts"] == 2.0);
}

TEST_CASE("memory counters give every band after each instant, and the most that was held within it") {
  const json trace = trace_of({{{},
                                {{1e-6, 100, Band::param, Verb::bind, 0},
                                 {1e-6, 20, Band::grad, Verb::backward, 0},
                                 {2e-6, 50, Band::workspace, Verb::backward, 0},
                                 {2e-6, -50, Band::workspace, Verb::backward, 0},
                                 {2e-6, -20, Band::grad, Verb::backward, 0}},
                                {},
                                {}}});
  const auto counters = events(trace, "C");
  REQUIRE(counters.size() == 6);  // by band, and in all
  CHECK(counters[0]["args"]["param"] == 100);
  CHECK(counters[0]["args"]["grad"] == 20);
  CHECK(counters[0]["args"].size() == band_count);
  CHECK(counters[1]["args"]["total"] == 120);
  CHECK(counters[3]["args"]["total"] == 170);
  CHECK(counters[4]["args"]["grad"] == 0);
  CHECK(counters[5]["args"]["total"] == 100);
}

TEST_CASE("a collective says what PyTorch's profiler says of one") {
  const Span reduce{
      0,           1e-6,  700,         1600, 2, Lane::reduce, Verb::adam, Span::collective, true, Verb::reduce_scatter,
      Dtype::bf16, false, {1, 4, 2, 0}};
  const Span tree{
      1e-6,        2e-6, 700,          800, 2, Lane::reduce, Verb::all_reduce, Span::collective, false, Verb::all_reduce,
      Dtype::fp32, true, {0, 1, 64, 1}};
  std::ostringstream out;
  const std::vector<Span> spans{reduce, tree};
  formats::write_trace(out, {"zero1", 64, "h100", 80, {}, 0}, {{1, spans, {}, {}, {}, {}, {}}});
  const json trace = json::parse(out.str());
  const auto slices = events(trace, "X");
  CHECK(slices[0]["name"] == "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)");
  const json& args = slices[0]["args"];
  CHECK(args["Collective name"] == "_reduce_scatter_base");
  CHECK(args["In msg nelems"] == 800);
  CHECK(args["Out msg nelems"] == 400);
  CHECK(args["Group size"] == 2);
  CHECK(args["dtype"] == "BFloat16");
  CHECK(args["Process Group Name"] == "1-5 by 4");
  CHECK(args["Process Group Description"] == "mesh_replicate");
  CHECK(args["Process Group Ranks"] == "[1, 5]");
  CHECK(args["payload"] == "control");
  CHECK(slices[1]["name"] == "ncclDevKernel_AllReduce_Sum_f32_TREE_LL(ncclDevKernelArgsStorage<4096ul>)");
  CHECK(slices[1]["args"]["Process Group Name"] == "0");
  const std::string ranks = slices[1]["args"]["Process Group Ranks"];
  CHECK(ranks.ends_with("28, 29, ...]"));
  const json& groups = trace["distributedInfo"]["pg_config"];
  REQUIRE(groups.size() == 2);
  CHECK(groups[0]["pg_desc"] == "default_pg");
  CHECK(groups[0]["ranks"].size() == 64);
  CHECK(groups[1]["ranks"] == json::array({1, 5}));
}

TEST_CASE("a flow leads from a gather to the first operation on its unit") {
  const auto op = [](double begin, int unit) {
    return Span{begin, begin + 1e-6, 0, 0, unit, Lane::compute, Verb::forward, 0, false};
  };
  const Span gather{0, 2e-6, 70, 80, 5, Lane::gather, Verb::all_gather, Span::collective, false, Verb::all_gather};
  const json trace = trace_of({{{gather, op(1e-6, 4), op(3e-6, 5), op(4e-6, 5)}, {}, {}, {}}});
  const auto starts = events(trace, "s"), ends = events(trace, "f");
  REQUIRE(starts.size() == 1);
  REQUIRE(ends.size() == 1);
  CHECK(starts[0]["id"] == ends[0]["id"]);
  CHECK(starts[0]["tid"] == formats::stream_number(Lane::gather));
  CHECK(ends[0]["tid"] == formats::stream_number(Lane::compute));
  CHECK(ends[0]["ts"] == 3.0);
}

TEST_CASE("slices of a row never overlap, however short they are") {
  Recorded rank;
  double time = 0;
  for (int i = 0; i < 1000; ++i) {
    const double next = time + 1e-10 * (1 + i % 17);
    rank.spans.push_back({time, next, 0, i, 0, Lane::compute, Verb::forward, 1, false});
    time = next;
  }
  rank.begin = {0, 3e-9, 5e-9}, rank.end = {4e-9, 6e-9, 7e-9};  // steps that overlap: there is no barrier
  std::map<int, double> end;
  for (const json& slice : events(trace_of({rank}), "X")) {
    const double begin = slice["ts"], duration = slice["dur"];
    CHECK(duration >= 0);
    CHECK(begin >= end[slice["tid"]] - 1e-9);
    end[slice["tid"]] = begin + duration;
  }
}

TEST_CASE("the host's row has the launches of each kernel, grouped into operators, within the host's step") {
  Span first{3e-6, 5e-6, 0, 0, 0, Lane::compute, Verb::forward, 0, false};
  first.issue_begin = 1e-6, first.issue_end = 2e-6;
  Span second = first;
  second.begin = 5e-6, second.end = 6e-6, second.issue_begin = 2e-6, second.issue_end = 3e-6;
  Span gather{6e-6, 7e-6, 70, 80, 5, Lane::gather, Verb::all_gather, Span::collective, false, Verb::all_gather};
  gather.issue_begin = 3e-6, gather.issue_end = 4e-6;
  const json trace = trace_of({{{first, second, gather}, {}, {1e-6}, {8e-6}, {{4e-6, 7e-6, HostWait::Until::all}}, {0.5e-6}}});
  std::vector<json> kernels, calls, operators, steps;
  for (const json& slice : events(trace, "X")) {
    if (slice["cat"] == "kernel") kernels.push_back(slice);
    if (slice["cat"] == "cuda_runtime") calls.push_back(slice);
    if (slice["cat"] == "cpu_op") operators.push_back(slice);
    if (slice["cat"] == "user_annotation") steps.push_back(slice);
  }
  REQUIRE(kernels.size() == 3);
  REQUIRE(calls.size() == 4);
  for (std::size_t i = 0; i < 3; ++i) CHECK(calls[i]["args"]["correlation"] == kernels[i]["args"]["correlation"]);
  CHECK(calls[0]["name"] == "cudaLaunchKernel");
  CHECK(calls[2]["name"] == "cudaLaunchKernelExC");
  CHECK(calls[3]["name"] == "cudaDeviceSynchronize");
  REQUIRE(operators.size() == 2);
  CHECK(operators[0]["name"] == "forward embedding");
  CHECK(operators[0]["dur"] == 2.0);
  CHECK(operators[1]["name"] == "nccl:_all_gather_base");
  CHECK(operators[1]["args"]["External id"] == calls[2]["args"]["External id"]);
  REQUIRE(steps.size() == 1);
  CHECK(steps[0]["ts"] == 0.5);
  CHECK(steps[0]["dur"] == 7.5);
  CHECK(steps[0]["pid"] != kernels[0]["pid"]);
  REQUIRE(events(trace, "s").size() == 3);
  CHECK(events(trace, "s")[1]["ts"] == 2.0);
  CHECK(events(trace, "f")[1]["ts"] == 5.0);
}
