// Time: what collectives take on platforms where it can be computed by hand, as "have to take, should take, actually took".
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "backends/simgrid/backend.h"
#include "core/error.h"
#include "cost/collective.h"
#include "app/process.h"
#include "runs.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

struct Job {
  Verb verb;
  Group (*group_of)(int rank);  ///< size 0: this rank takes no part
  std::int64_t elements;        ///< fp32, of the whole buffer
  Lane lane;
};

void issue(const std::vector<Job>& jobs, Device& device, Fabric& fabric) {
  for (const Job& job : jobs) {
    const Group group = job.group_of(device.rank());
    if (group.size == 0) continue;
    device.label(job.verb, int(&job - jobs.data()));
    const Tensor buffer = device.alloc(job.lane, Band::workspace, one, Dim(job.elements, 0), Dtype::fp32);
    const Tensor slice = buffer.slice(Dim(group.me * job.elements / group.size, 0), Dim(job.elements / group.size, 0));
    if (job.verb == Verb::all_reduce) fabric.all_reduce(job.lane, group, buffer);
    if (job.verb == Verb::reduce_scatter) fabric.reduce_scatter(job.lane, group, buffer, slice);
    if (job.verb == Verb::reduce) fabric.reduce(job.lane, group, buffer, buffer, group.size - 1);
    if (job.verb == Verb::broadcast) fabric.broadcast(job.lane, group, buffer, group.size / 2);
    if (job.verb == Verb::all_to_all)
      fabric.all_to_all(job.lane, group, buffer, device.alloc(job.lane, Band::workspace, one, Dim(job.elements, 0), Dtype::fp32));
    if (job.verb == Verb::all_gather) fabric.all_gather(job.lane, group, slice, buffer);
  }
}

/// What `read` makes of a simulated platform after the jobs, as doubles; in a process of its own.
std::vector<double> after(SimgridSettings settings, const std::string& platform_xml, int world, const std::vector<Job>& jobs,
                          const std::function<std::vector<double>(const SimgridBackend&)>& read) {
  const PlatformFile file(platform_xml);
  const ProcessEnd end = run_in_process([&](int messages) {
    settings.numerics = false;
    settings.platform = file.path();
    settings.messages = messages;
    SimgridBackend backend(settings);
    backend.run(world, [&](Device& device, Fabric& fabric) { issue(jobs, device, fabric); });
    const std::vector<double> values = read(backend);
    return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
  });
  REQUIRE_MESSAGE(end.answered, end.messages);
  std::vector<double> values(end.answer.size() / sizeof(double));
  std::memcpy(values.data(), end.answer.data(), end.answer.size());
  return values;
}

/// When the last member of each job is done.
std::vector<double> ends_of(const std::string& platform_xml, int world, Fidelity fidelity, const std::vector<Job>& jobs,
                            Latency latency = Latency::platform, const cost::CollectiveRules& rules = {}) {
  SimgridSettings settings;
  settings.fidelity = fidelity, settings.latency = latency, settings.collectives = rules;
  return after(settings, platform_xml, world, jobs, [&](const SimgridBackend& backend) {
    std::vector<double> ends(jobs.size());
    for (int rank = 0; rank < world; ++rank)
      for (const Span& span : backend.device(rank).recorder().spans()) ends[span.unit] = std::max(ends[span.unit], span.end);
    return ends;
  });
}

template <int N>
Group all(int rank) {
  return {0, 1, N, rank};
}

/// Four GPUs, a port each, and a bus that all of them cross: 10 GB/s for everyone together.
const char* shared_bus =
    R"(<?xml version="1.0"?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd"><platform version="4.1">
<zone id="w" routing="Full">GPUS<link id="bus" bandwidth="10GBps" latency="1us" sharing_policy="SHARED"/>ROUTES</zone></platform>)";

std::string on_a_shared_bus(int gpus) {
  std::string hosts, routes, text = shared_bus;
  for (int i = 0; i < gpus; ++i) {
    const std::string name = "gpu" + std::to_string(i);
    hosts += "<host id=\"" + name +
             "\" speed=\"1Gf\"><prop id=\"gpu\" value=\"g\"/><prop id=\"memory\" value=\"1GB\"/>"
             "<prop id=\"memory_bandwidth\" value=\"1TBps\"/><prop id=\"fp32_flops\" value=\"1Tf\"/>"
             "<prop id=\"bf16_flops\" value=\"1Tf\"/></host>";
    for (int j = i + 1; j < gpus; ++j)
      routes += "<route src=\"" + name + "\" dst=\"gpu" + std::to_string(j) + "\"><link_ctn id=\"bus\"/></route>";
  }
  text.replace(text.find("GPUS"), 4, hosts);
  return text.replace(text.find("ROUTES"), 6, routes);
}

}  // namespace

TEST_CASE("a ring all-reduce takes 2(N-1) steps of a chunk's transfer and an edge's latency, in every fidelity") {
  IdealGpus gpus;
  using GroupOf = Group (*)(int);
  for (const auto& [n, group] : {std::pair<int, GroupOf>{2, all<2>}, {3, all<3>}, {8, all<8>}})
    for (const Fidelity fidelity : {Fidelity::ring, Fidelity::coupled, Fidelity::formula}) {
      gpus.gpus = n;
      const std::int64_t elements = 24 * 1000 * 1000;
      const double bytes = 4.0 * double(elements);
      // Have to: 2(N-1) steps, each a chunk of S/N bytes over a 50 GB/s port, and 1 us.
      const double have_to = 2 * (n - 1) * (bytes / n / 50e9 + 1e-6);
      const double actual = ends_of(platform_xml(gpus), n, fidelity, {{Verb::all_reduce, group, elements, Lane::reduce}})[0];
      INFO("N = " << n << ", have to " << have_to << ", actual " << actual);
      CHECK(actual == doctest::Approx(have_to).epsilon(1e-6).scale(0));  // should: SimGrid's clock resolves 1 ns
    }
}

TEST_CASE("a reduce or broadcast takes N-1 latencies and its pieces of a MiB one behind the other, in every fidelity") {
  IdealGpus gpus;
  using GroupOf = Group (*)(int);
  for (const auto& [n, group] : {std::pair<int, GroupOf>{2, all<2>}, {3, all<3>}, {8, all<8>}})
    for (const Verb verb : {Verb::reduce, Verb::broadcast})
      for (const std::int64_t mebibytes : {1, 50})
        for (const Fidelity fidelity : {Fidelity::ring, Fidelity::coupled, Fidelity::formula}) {
          gpus.gpus = n;
          const std::int64_t elements = mebibytes << 18;
          // Have to: the last member has its first piece after N-1 edges, and then one every 2^20 B / 50 GB/s.
          const double piece = (1 << 20) / 50e9, have_to = (n - 1) * (piece + 1e-6) + double(mebibytes - 1) * piece;
          const double actual = ends_of(platform_xml(gpus), n, fidelity, {{verb, group, elements, Lane::reduce}})[0];
          INFO(name_of(verb) << ", N = " << n << ", " << mebibytes << " MiB, have to " << have_to << ", actual " << actual);
          CHECK(actual == doctest::Approx(have_to).epsilon(1e-4).scale(0));  // should: SimGrid's clock resolves 1 ns a message
        }
}

TEST_CASE(
    "an all-to-all takes the latency of its longest pair and the bytes of the link that has most to carry, in every fidelity") {
  const std::int64_t elements = 8 * 3 * 1'000'000;
  const double bytes = 4.0 * double(elements);
  IdealGpus gpus;
  using GroupOf = Group (*)(int);
  for (const Fidelity fidelity : {Fidelity::ring, Fidelity::coupled, Fidelity::formula}) {
    for (const auto& [n, group] : {std::pair<int, GroupOf>{2, all<2>}, {3, all<3>}, {8, all<8>}}) {
      gpus.gpus = n;
      INFO("N = " << n);
      // Have to: (N-1)/N of the buffer out of a port of 50 GB/s, and 1 us.
      CHECK(ends_of(platform_xml(gpus), n, fidelity, {{Verb::all_to_all, group, elements, Lane::reduce}})[0] ==
            doctest::Approx((n - 1) * bytes / n / 50e9 + 1e-6).epsilon(1e-6).scale(0));
    }
    // Have to: all twelve messages over 10 GB/s, where a ring's edges would be four.
    CHECK(ends_of(on_a_shared_bus(4), 4, fidelity, {{Verb::all_to_all, all<4>, elements, Lane::reduce}})[0] ==
          doctest::Approx(12 * bytes / 4 / 10e9 + 1e-6).epsilon(1e-6).scale(0));
  }
}

TEST_CASE("SimGrid's own link counters agree with the bytes that the fabrics count") {
  IdealGpus gpus;
  const std::vector<Job> jobs{{Verb::all_reduce, all<8>, 80000, Lane::reduce},
                              {Verb::all_gather, all<8>, 4000, Lane::gather},
                              {Verb::all_to_all, all<8>, 16000, Lane::gather}};
  for (const Fidelity fidelity : {Fidelity::ring, Fidelity::coupled}) {
    SimgridSettings settings;
    settings.fidelity = fidelity, settings.meters_links = true;
    const std::vector<double> counts = after(settings, platform_xml(gpus), 8, jobs, [](const SimgridBackend& backend) {
      std::vector<double> both;
      const auto metered = backend.metered_link_bytes();
      for (const auto& [link, bytes] : backend.link_bytes()) {
        const auto found = metered.find(link);
        both.insert(both.end(), {bytes, found == metered.end() ? 0 : found->second});
      }
      both.push_back(double(metered.size()));
      return both;
    });
    CHECK(counts.back() == 16);  // a port up and a port down per GPU, and no other link
    REQUIRE(counts.size() == 33);
    for (std::size_t i = 0; i + 1 < counts.size(); i += 2) {
      CHECK(counts[i] == 2 * 7 * 40000 + 7 * 2000 + 7 * 8000);  // every port carries what one rank sends
      CHECK(counts[i + 1] == doctest::Approx(counts[i]).epsilon(1e-9).scale(0));
    }
  }
}

TEST_CASE("a reduce-scatter and an all-gather take half of an all-reduce each") {
  IdealGpus gpus;
  gpus.gpus = 5;
  const std::int64_t elements = 5 * 1000 * 1000;
  for (const Fidelity fidelity : {Fidelity::ring, Fidelity::coupled, Fidelity::formula})
    for (const Verb verb : {Verb::reduce_scatter, Verb::all_gather}) {
      const double have_to = 4 * (4e6 / 50e9 + 1e-6);
      CHECK(ends_of(platform_xml(gpus), 5, fidelity, {{verb, all<5>, elements, Lane::reduce}})[0] ==
            doctest::Approx(have_to).epsilon(1e-6).scale(0));
    }
}

TEST_CASE("whole training steps agree within 0.1 % between ring, coupled and formula on an ideal platform") {
  Scenario s = small_scenario();
  s.model.widths = {64, 96, 80, 48};
  for (const std::string& scheme : schemes())
    for (const int streams : {1, 2}) {  // with three, gathers and reductions share the ports, which the formula does not see
      s.knobs.streams = streams;
      s.fabric = Fidelity::ring;
      const double ring = run(s, scheme).ranks[0].step_end.back();
      for (const Fidelity fidelity : {Fidelity::coupled, Fidelity::formula}) {
        s.fabric = fidelity;
        CHECK(run(s, scheme).ranks[0].step_end.back() == doctest::Approx(ring).epsilon(1e-3).scale(0));
      }
    }
}

TEST_CASE("two collectives on a shared bus take the same in coupled and ring, within 2 %") {
  const std::int64_t elements = 4 * 1000 * 1000;
  const std::vector<Job> jobs{{Verb::all_reduce, all<4>, elements, Lane::reduce},
                              {Verb::all_gather, all<4>, 2 * elements, Lane::gather}};
  const std::string platform = on_a_shared_bus(4);
  const auto ring = ends_of(platform, 4, Fidelity::ring, jobs), coupled = ends_of(platform, 4, Fidelity::coupled, jobs);
  // Have to: all bytes of both over 10 GB/s. All-reduce 2(N-1) S/N over each of N edges; all-gather (N-1)/N S over each.
  const double all_bytes = 4 * (6 * 4e6 + 3 * 8e6), have_to = all_bytes / 10e9;
  const double last = std::max(coupled[0], coupled[1]);
  CHECK(last == doctest::Approx(have_to + 6e-6).epsilon(2e-3).scale(0));  // should: and the latency of the longer path
  for (const int job : {0, 1}) CHECK(coupled[job] == doctest::Approx(ring[job]).epsilon(0.02).scale(0));
  // Alone, either is faster: there was contention.
  CHECK(ends_of(platform, 4, Fidelity::coupled, {jobs[0]})[0] < 0.8 * coupled[0]);
}

TEST_CASE("two disjoint groups that share a bus halve each other's bandwidth") {
  auto pairs = [](int rank) { return Group{rank / 2 * 2, 1, 2, rank % 2}; };
  auto first_pair = [](int rank) { return rank < 2 ? Group{0, 1, 2, rank} : Group{0, 1, 0, 0}; };
  const std::int64_t elements = 10 * 1000 * 1000;
  const std::string platform = on_a_shared_bus(4);
  for (const Fidelity fidelity : {Fidelity::ring, Fidelity::coupled}) {
    const double both = ends_of(platform, 4, fidelity, {{Verb::all_gather, pairs, elements, Lane::gather}})[0];
    const double alone = ends_of(platform, 4, fidelity, {{Verb::all_gather, first_pair, elements, Lane::gather}})[0];
    CHECK(alone == doctest::Approx(2 * 20e6 / 10e9 + 1e-6).epsilon(1e-6).scale(0));  // both edges of the pair cross the bus
    CHECK(both == doctest::Approx(4 * 20e6 / 10e9 + 1e-6).epsilon(1e-6).scale(0));
  }
}

TEST_CASE("a slow edge's latency is paid by the chunks that cross it, in ring and in coupled") {
  // Three GPUs in a line of unequal latencies; no bandwidth to speak of.
  const std::string gpu = R"(<prop id="gpu" value="g"/><prop id="memory" value="1GB"/><prop id="memory_bandwidth" value="1TBps"/>
<prop id="fp32_flops" value="1Tf"/><prop id="bf16_flops" value="1Tf"/>)";
  const std::string platform =
      R"(<?xml version="1.0"?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd"><platform version="4.1">
<zone id="w" routing="Full"><host id="gpu0" speed="1Gf">)" +
      gpu + R"(</host><host id="gpu1" speed="1Gf">)" + gpu + R"(</host><host id="gpu2" speed="1Gf">)" + gpu + R"(</host>
<link id="a" bandwidth="1TBps" latency="1us" sharing_policy="SPLITDUPLEX"/>
<link id="b" bandwidth="1TBps" latency="2us" sharing_policy="SPLITDUPLEX"/>
<link id="c" bandwidth="1TBps" latency="10us" sharing_policy="SPLITDUPLEX"/>
<route src="gpu0" dst="gpu1"><link_ctn id="a" direction="UP"/></route>
<route src="gpu1" dst="gpu2"><link_ctn id="b" direction="UP"/></route>
<route src="gpu2" dst="gpu0"><link_ctn id="c" direction="UP"/></route></zone></platform>)";
  for (const Fidelity fidelity : {Fidelity::ring, Fidelity::coupled, Fidelity::formula}) {
    // Have to: the worst chain of 2(N-1) = 4 neighbouring edges is c a b c, 10 + 1 + 2 + 10.
    const double actual = ends_of(platform, 3, fidelity, {{Verb::all_reduce, all<3>, 3, Lane::reduce}})[0];
    CHECK(actual == doctest::Approx(23e-6).epsilon(1e-3).scale(0));
    CHECK(ends_of(platform, 3, fidelity, {{Verb::all_to_all, all<3>, 3, Lane::reduce}})[0] ==
          doctest::Approx(10e-6).epsilon(1e-3).scale(0));  // nobody waits for more than one hop
  }
}

TEST_CASE("latency: nccl pays a Simple ring's constants in ring, and those of NCCL's choice in coupled and formula") {
  IdealGpus gpus;
  const std::vector<Job> tiny{{Verb::all_gather, all<8>, 8, Lane::gather}};
  // Have to: 8.4 us and 3.4 us for each of 7 hops with Simple; 6.6 us and 0.6 us with LL, which is the choice for 32 bytes.
  CHECK(ends_of(platform_xml(gpus), 8, Fidelity::ring, tiny, Latency::nccl)[0] == doctest::Approx(32.2e-6).epsilon(1e-3).scale(0));
  for (const Fidelity fidelity : {Fidelity::coupled, Fidelity::formula})
    CHECK(ends_of(platform_xml(gpus), 8, fidelity, tiny, Latency::nccl)[0] == doctest::Approx(10.8e-6).epsilon(1e-3).scale(0));
  // An all-to-all: 8.4 us and one hop.
  const std::vector<Job> exchange{{Verb::all_to_all, all<8>, 8, Lane::reduce}};
  for (const Fidelity fidelity : {Fidelity::ring, Fidelity::coupled, Fidelity::formula})
    CHECK(ends_of(platform_xml(gpus), 8, fidelity, exchange, Latency::nccl)[0] == doctest::Approx(11.8e-6).epsilon(1e-3).scale(0));
}

TEST_CASE("with latency: nccl, coupled and formula take what the chosen algorithm and protocol cost, at every size") {
  IdealGpus gpus;
  cost::Wiring wiring{.ranks = 8, .nodes = 1, .nvlink = true, .nvls = false, .ring_bandwidth = 50e9};
  for (const std::int64_t elements : {8'000, 800'000, 80'000'000})
    for (const Verb verb : {Verb::all_reduce, Verb::reduce_scatter}) {
      const double have_to = cost::price(wiring, verb, 4.0 * double(elements)).seconds(verb, 8, 4.0 * double(elements));
      for (const Fidelity fidelity : {Fidelity::coupled, Fidelity::formula})
        CHECK(ends_of(platform_xml(gpus), 8, fidelity, {{verb, all<8>, elements, Lane::reduce}}, Latency::nccl)[0] ==
              doctest::Approx(have_to).epsilon(1e-3).scale(0));
    }
}

TEST_CASE("a GPU's property nvls lets the switch add up large all-reduces") {
  IdealGpus gpus;
  std::string xml = platform_xml(gpus);
  xml.insert(xml.find("</cluster>"), R"(<prop id="nvls" value="yes"/>)");
  const std::vector<Job> large{{Verb::all_reduce, all<8>, 100'000'000, Lane::reduce}};
  // Have to: 25 us, and 14/8 of 400 MB at 50 GB/s x 0.85 x 14/9.
  for (const Fidelity fidelity : {Fidelity::coupled, Fidelity::formula})
    CHECK(ends_of(xml, 8, fidelity, large, Latency::nccl)[0] ==
          doctest::Approx(25e-6 + 7e8 / (50e9 * 0.85 * 14 / 9)).epsilon(1e-4).scale(0));
}

TEST_CASE("what a platform cannot do in NCCL's stead is refused by name") {
  std::string xml = platform_xml(IdealGpus{});
  const auto refusal = [](const std::string& platform, const cost::CollectiveRules& rules) -> std::string {
    const PlatformFile file(platform);
    Scenario s = small_scenario();
    s.platform = file.path(), s.latency = Latency::nccl, s.collectives = rules, s.steps = 1;
    try {
      run(s, "dp");
    } catch (const ScenarioError& error) {
      return error.what();
    }
    return {};
  };
  CHECK(refusal(xml, {}).empty());
  CHECK(refusal(xml, {.algorithm = cost::Algorithm::nvls, .protocol = {}, .measured = {}}).find("nvls: yes") < std::string::npos);
  xml.insert(xml.find("</cluster>"), R"(<prop id="generation" value="pascal"/>)");
  CHECK(refusal(xml, {}).find("generation: unknown value 'pascal'") < std::string::npos);
}

TEST_CASE("a measured bus bandwidth and alpha replace the platform's and NCCL's, and counted bytes stay the true ones") {
  IdealGpus gpus;
  cost::CollectiveRules rules;
  rules.of(Verb::all_gather) = {.bus = 80e9, .alpha = 33e-6};  // more than the 50 GB/s of the platform's ports
  const std::vector<Job> jobs{{Verb::all_gather, all<8>, 8'000'000, Lane::gather}};
  for (const Latency latency : {Latency::platform, Latency::nccl})
    for (const Fidelity fidelity : {Fidelity::coupled, Fidelity::formula})
      CHECK(ends_of(platform_xml(gpus), 8, fidelity, jobs, latency, rules)[0] ==
            doctest::Approx(33e-6 + 28e6 / 80e9).epsilon(1e-4).scale(0));
  SimgridSettings settings;
  settings.collectives = rules;
  const auto bytes = after(settings, platform_xml(gpus), 8, jobs, [](const SimgridBackend& backend) {
    std::vector<double> loads;
    for (const auto& [link, load] : backend.link_bytes()) loads.push_back(load);
    return loads;
  });
  REQUIRE(bytes.size() == 16);
  for (const double load : bytes) CHECK(load == 28e6);
}

TEST_CASE("overlap needs no scheme code: with a gather stream, zero3 hides gathers under compute and its step is shorter") {
  Scenario s = small_scenario();
  static const PlatformFile platform([] {
    IdealGpus slow;
    slow.flops = 1e9, slow.bandwidth = 2.5e7, slow.latency = 1e-7;  // a layer computes about as long as it is gathered
    return slow;
  }());
  s.platform = platform.path();
  s.model.widths = {32, 32, 32, 32, 32, 32, 32};
  s.micro_batch = 64;
  s.knobs.prefetch = 1;
  s.steps = 1;
  auto timed = [&](int streams) {
    s.knobs.streams = streams;
    return run(s, "zero3");
  };
  const SchemeResult one = timed(1), two = timed(2);
  CHECK(two.ranks[0].step_end.back() < 0.8 * one.ranks[0].step_end.back());
  auto hidden = [](const SchemeResult& result) {
    double seconds = 0;
    for (const Span& gather : result.ranks[0].spans) {
      if (gather.verb != Verb::all_gather) continue;
      for (const Span& op : result.ranks[0].spans)
        if (op.op != Span::collective) seconds += std::max(0.0, std::min(gather.end, op.end) - std::max(gather.begin, op.begin));
    }
    return seconds;
  };
  CHECK(hidden(one) == 0);
  double compute = 0;
  for (const Span& op : two.ranks[0].spans)
    if (op.op != Span::collective) compute += op.end - op.begin;
  CHECK(hidden(two) > 0.3 * compute);
  CHECK(one.theta == two.theta);
}

TEST_CASE("a launch costs the host its time: a step of tiny kernels takes as long as launching them") {
  Scenario s = small_scenario();
  static const PlatformFile platform([] {
    IdealGpus launching;
    launching.launch_seconds = 10e-6;
    return launching;
  }());
  s.platform = platform.path();
  s.world = 1;
  s.steps = 1;
  const SchemeResult result = run(s, "dp");
  std::size_t launches = 0;
  for (const Span& span : result.ranks[0].spans) launches += span.begin >= 0;
  CHECK(result.ranks[0].step_end[0] == doctest::Approx(10e-6 * double(launches)).epsilon(0.01).scale(0));
}
