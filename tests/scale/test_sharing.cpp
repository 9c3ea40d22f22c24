// Sharing: our own solver gives what SimGrid's gives, and what closed forms give, at sizes where SimGrid's takes long.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>

#include "app/platform_writer.h"
#include "app/process.h"
#include "backends/simgrid/backend.h"
#include "platforms.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

/// When each rank's collectives have ended, in the order of ranks and of their ends.
std::vector<double> ends(const std::string& platform, int world, SimgridSettings settings,
                         const std::function<void(Device&, Fabric&)>& body) {
  const PlatformFile file(platform);
  const ProcessEnd end = run_in_process([&](int messages) {
    settings.numerics = settings.checks_hazards = false;
    settings.recorded_ranks = world;
    settings.platform = file.path(), settings.messages = messages;
    SimgridBackend backend(settings);
    backend.run(world, body);
    std::vector<double> dates;
    for (int rank = 0; rank < world; ++rank)
      for (const Span& span : backend.device(rank).recorder().spans())
        if (span.op == Span::collective) dates.push_back(span.end);
    return std::string(reinterpret_cast<const char*>(dates.data()), dates.size() * sizeof(double));
  });
  REQUIRE_MESSAGE(end.answered, end.messages);
  std::vector<double> dates(end.answer.size() / sizeof(double));
  std::memcpy(dates.data(), end.answer.data(), end.answer.size());
  return dates;
}

Tensor floats(Device& device, Lane lane, std::int64_t count) {
  return device.alloc(lane, Band::workspace, one, Dim(count, 0), Dtype::fp32);
}

double all_reduce_seconds(int world, Fidelity fidelity, std::int64_t bytes) {
  IdealGpus gpus;
  gpus.gpus = world, gpus.bandwidth = 300e9, gpus.latency = 500e-9;
  SimgridSettings settings;
  settings.fidelity = fidelity;
  return ends(platform_xml(gpus), world, settings,
              [&](Device& device, Fabric& fabric) {
                fabric.all_reduce(Lane::gather, {0, 1, world, device.rank()}, floats(device, Lane::gather, bytes / 4));
              })
      .back();
}

std::string four_nodes(int gpus_per_node, int nodes = 4) {
  MachineSpec spec;
  spec.nodes = nodes, spec.gpus_per_node = gpus_per_node, spec.gpu = "h100-sxm", spec.nic = 50e9;
  spec.has_leaves = true, spec.nodes_per_leaf = 2, spec.oversubscription = 1.5;
  return platform_xml(completed(spec), "");
}

/// Rings inside nodes and between them, of several sizes, that begin one after the other and share ports, NICs and uplinks.
void contend(Device& device, Fabric& fabric, int world, int gpus_per_node) {
  const int rank = device.rank(), place = rank % gpus_per_node, node = rank / gpus_per_node;
  const Group inside{node * gpus_per_node, 1, gpus_per_node, place}, between{place, gpus_per_node, world / gpus_per_node, node};
  for (int i = 1; i <= 3; ++i) {
    fabric.all_reduce(Lane::gather, inside, floats(device, Lane::gather, i * 3'000'000));
    fabric.all_reduce(Lane::reduce, between, floats(device, Lane::reduce, (place + i) * 1'000'000));
    fabric.all_reduce(Lane::compute, {0, 1, world, rank}, floats(device, Lane::compute, 2'000'000 / i));
  }
}

/// The same machine: nodes and links stand in the file from the last to the first.
std::string declared_backwards(std::string xml) {
  for (const auto& [open, close] : {std::pair{"<cluster ", "</cluster>"}, {"<link ", "/>"}}) {
    std::vector<std::pair<std::size_t, std::size_t>> places;
    std::vector<std::string> parts;
    for (std::size_t at = 0; (at = xml.find(open, at)) != std::string::npos; ++at) {
      places.emplace_back(at, xml.find(close, at) + std::strlen(close) - at);
      parts.push_back(xml.substr(at, places.back().second));
    }
    for (std::size_t i = places.size(); i-- > 0;) xml.replace(places[i].first, places[i].second, parts[places.size() - 1 - i]);
  }
  return xml;
}

void check_same(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-9).scale(0));
}

}  // namespace

TEST_CASE("a ring all-reduce of a GiB at 300 GB/s and 500 ns takes what the closed form says, up to 4,096 ranks") {
  constexpr std::int64_t bytes = std::int64_t(1) << 30;
  for (const auto& [world, milliseconds] : {std::pair{8, 6.2705}, {64, 7.1094}, {512, 7.6553}, {4096, 11.2515}}) {
    const double seconds = all_reduce_seconds(world, Fidelity::coupled, bytes);
    CHECK(1e3 * seconds == doctest::Approx(milliseconds).epsilon(1e-4).scale(0));
    CHECK(seconds == doctest::Approx(2.0 * (world - 1) * (double(bytes) / world / 300e9 + 500e-9)).epsilon(1e-6).scale(0));
  }
}

TEST_CASE("coupled takes what the messages of a ring take on an ideal ring, within 0.1 %") {
  // 512 ranks send half a million messages: not where a sanitizer gives every rank a thread.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr int worlds[] = {8, 64};
#else
  constexpr int worlds[] = {8, 64, 512};
#endif
  for (const int world : worlds) {
    const std::int64_t bytes = std::int64_t(1) << 26;
    CHECK(all_reduce_seconds(world, Fidelity::coupled, bytes) ==
          doctest::Approx(all_reduce_seconds(world, Fidelity::ring, bytes)).epsilon(1e-3).scale(0));
  }
}

TEST_CASE("our own solver ends every collective when SimGrid's does, whoever contends with whom") {
  for (const int gpus_per_node : {1, 2, 4}) {
    const int world = 4 * gpus_per_node;
    const auto body = [&](Device& device, Fabric& fabric) { contend(device, fabric, world, gpus_per_node); };
    SimgridSettings own, simgrid;
    own.shares_links = true, simgrid.shares_links = false;
    check_same(ends(four_nodes(gpus_per_node), world, own, body), ends(four_nodes(gpus_per_node), world, simgrid, body));
  }
}

TEST_CASE("where links lie in memory, and in which order they are declared, changes no bit") {
  const std::string xml = four_nodes(4), backwards = declared_backwards(xml);
  REQUIRE(xml != backwards);
  const auto body = [](Device& device, Fabric& fabric) { contend(device, fabric, 16, 4); };
  SimgridSettings settings;
  settings.shares_links = true;
  const std::vector<double> dates = ends(xml, 16, settings, body);
  CHECK(ends(backwards, 16, settings, body) == dates);
  // New objects go where something was freed: in an order of its own for every seed. The run's process inherits the heap.
  for (const unsigned seed : {1u, 2u, 3u}) {
    std::mt19937 random(seed);
    std::vector<std::unique_ptr<char[]>> blocks(20'000);
    for (auto& block : blocks) block = std::make_unique<char[]>(16 + random() % 1000);
    std::shuffle(blocks.begin(), blocks.end(), random);
    blocks.resize(blocks.size() / 2);
    CHECK(ends(xml, 16, settings, body) == dates);
  }
}

TEST_CASE("our own solver ends an all-to-all when SimGrid's does") {
  const auto body = [](Device& device, Fabric& fabric) {
    const Group all{0, 1, 8, device.rank()};
    fabric.all_reduce(Lane::reduce, all, floats(device, Lane::reduce, 8'000'000));
    fabric.all_to_all(Lane::gather, all, floats(device, Lane::gather, 8'000'000), floats(device, Lane::gather, 8'000'000));
  };
  SimgridSettings own, simgrid;
  own.shares_links = true, simgrid.shares_links = false;
  check_same(ends(four_nodes(2), 8, own, body), ends(four_nodes(2), 8, simgrid, body));
}

TEST_CASE("a cluster in a few facts takes as long as one whose hosts and links are spelled out") {
  const std::string spelled_out = four_nodes(4);
  // The same numbers: see the file that is spelled out. Uplinks: 45 GB/s of each of two nodes / 1.5.
  const std::string compact = R"(<?xml version="1.0"?><platform version="4.1"><zone id="machine" routing="None">
    <prop id="nodes" value="4"/><prop id="gpus_per_node" value="4"/>
    <prop id="port_bandwidth" value="360GBps"/><prop id="port_latency" value="1.7us"/>
    <prop id="nic_bandwidth" value="45GBps"/><prop id="nic_latency" value="5.3us"/>
    <prop id="nodes_per_leaf" value="2"/><prop id="leaf_bandwidth" value="60GBps"/><prop id="leaf_latency" value="0.5us"/>
    <prop id="gpu" value="h100-sxm"/><prop id="interconnect" value="nvlink"/><prop id="generation" value="hopper"/>
    <prop id="nvls" value="yes"/></zone></platform>)";
  const auto body = [](Device& device, Fabric& fabric) { contend(device, fabric, 16, 4); };
  for (const Latency latency : {Latency::platform, Latency::nccl}) {
    SimgridSettings settings;
    settings.latency = latency;
    check_same(ends(compact, 16, settings, body), ends(spelled_out, 16, settings, body));
  }
}

TEST_CASE("a machine of more than 128 nodes is said in a few facts, and runs") {
  MachineSpec spec;
  spec.nodes = 2048, spec.gpus_per_node = 8, spec.gpu = "h100-sxm", spec.nic = 50e9;
  const std::string xml = platform_xml(completed(spec), "");
  CHECK(xml.size() < 4000);
  const auto body = [](Device& device, Fabric& fabric) {
    fabric.all_reduce(Lane::gather, {0, 1, 32, device.rank()}, floats(device, Lane::gather, 32'000'000));
  };
  const double seconds = ends(xml, 32, {}, body).back();
  // Four nodes of eight; 45 GB/s between them. 28 hops of 3.4 us and 4 of 14, of which a path of 31 hops leaves one out,
  // twice; and a launch of 5 us.
  CHECK(seconds == doctest::Approx(2 * 31.0 / 32 * 128e6 / 45e9 + 2 * (27 * 3.4e-6 + 4 * 14e-6) + 5e-6).epsilon(1e-6).scale(0));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // where every rank is a thread
TEST_CASE("more ranks are simulated one by one than Linux gives a process mappings for stacks with guard pages") {
  MachineSpec spec;
  spec.nodes = 4200, spec.gpus_per_node = 8, spec.gpu = "h100-sxm", spec.nic = 50e9;
  constexpr int world = 33'600;  // of 65,530 mappings, a guarded stack takes two
  const auto body = [](Device& device, Fabric& fabric) {
    const int place = device.rank() % 8;
    fabric.all_reduce(Lane::gather, {device.rank() - place, 1, 8, place}, floats(device, Lane::gather, 8000));
  };
  const std::vector<double> dates = ends(platform_xml(completed(spec), ""), world, {}, body);
  REQUIRE(dates.size() == world);
  CHECK(dates.front() > 0);
  CHECK(std::count(dates.begin(), dates.end(), dates.front()) == world);
}
#endif

TEST_CASE("a cluster's facts that are missing or impossible are refused by name") {
  const auto refusal = [](const std::string& facts) {
    const PlatformFile file("<?xml version=\"1.0\"?><platform version=\"4.1\"><zone id=\"m\" routing=\"None\">" + facts +
                            "</zone></platform>");
    const ProcessEnd end = run_in_process([&](int messages) -> std::string {
      SimgridSettings settings;
      settings.platform = file.path(), settings.messages = messages;
      try {
        SimgridBackend(settings).run(1, [](Device&, Fabric&) {});
      } catch (const std::exception& error) {
        return error.what();
      }
      return "none";
    });
    REQUIRE(end.answered);
    return end.answer;
  };
  const auto prop = [](const char* id, const char* value) {
    return std::string("<prop id=\"") + id + "\" value=\"" + value + "\"/>";
  };
  const std::string gpus = prop("gpus_per_node", "8") + prop("gpu", "h100-sxm");
  const auto contains = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  CHECK(contains(refusal(gpus), "zone 'm': property 'nodes': is missing"));
  CHECK(contains(refusal(gpus + prop("nodes", "0")), "zone 'm': property 'nodes': '0' is no number from 1 to 1048576"));
  CHECK(contains(refusal(gpus + prop("nodes", "1")), "zone 'm': property 'port_bandwidth': is missing"));
  const std::string ports = gpus + prop("nodes", "2") + prop("port_latency", "1us");
  CHECK(contains(refusal(ports + prop("port_bandwidth", "0GBps")), "zone 'm': property 'port_bandwidth': '0GBps' is out of"));
  CHECK(contains(refusal(ports + prop("port_bandwidth", "9GBps")), "zone 'm': property 'nic_bandwidth': is missing"));
  CHECK(contains(refusal(prop("gpus_per_node", "8")), "zone 'm': property 'gpu': is missing"));
}
