// Platform files that shardsim writes and ships: they load, and rings over them have the bandwidth and latency asked for.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstring>
#include <regex>

#include "app/platform_writer.h"
#include "app/whole_file.h"
#include "app/process.h"
#include "app/run.h"
#include "app/scenario_parts.h"
#include "backends/simgrid/backend.h"
#include "core/error.h"
#include "platforms.h"

namespace fs = std::filesystem;
using namespace shardsim;
using namespace shardsim::test;
using doctest::Approx;

namespace {

/// Seconds of an all-gather of `elements` fp32 in groups of `size` ranks, `stride` apart, all at the same time.
double gather_seconds(const fs::path& platform, int world, int size, int stride, std::int64_t elements) {
  const ProcessEnd end = run_in_process([&](int messages) -> std::string {
    SimgridSettings settings;
    settings.numerics = settings.checks_hazards = false;
    settings.platform = platform;
    settings.messages = messages;
    double seconds = 0;
    try {
      SimgridBackend backend(settings);
      backend.run(world, [&](Device& device, Fabric& fabric) {
        const int me = device.rank() / stride % size;
        const Group group{device.rank() - me * stride, stride, size, me};
        const Tensor buffer = device.alloc(Lane::gather, Band::workspace, one, Dim(elements, 0), Dtype::fp32);
        fabric.all_gather(Lane::gather, group, buffer.slice(Dim(me * elements / size, 0), Dim(elements / size, 0)), buffer);
        device.synchronize();
        seconds = std::max(seconds, device.now());
      });
    } catch (const std::exception& error) {  // must not come out of the forked process
      return error.what();
    }
    return std::string(reinterpret_cast<const char*>(&seconds), sizeof seconds);
  });
  REQUIRE_MESSAGE(end.answered, end.messages);
  double seconds = 0;
  REQUIRE_MESSAGE(end.answer.size() == sizeof seconds, end.answer);
  std::memcpy(&seconds, end.answer.data(), sizeof seconds);
  return seconds;
}

/// Bytes per second of each rank, from the difference of two sizes: without latency and launch.
double bandwidth(const fs::path& platform, int world, int size, int stride) {
  const std::int64_t small = std::int64_t{size} * 1000000, large = 3 * small;
  const double seconds =
      gather_seconds(platform, world, size, stride, large) - gather_seconds(platform, world, size, stride, small);
  return 4.0 * double(large - small) * (size - 1) / size / seconds;
}

MachineSpec machine(int nodes, int gpus, const char* gpu, double nic = 0, int nics = 1) {
  MachineSpec m;
  m.nodes = nodes, m.gpus_per_node = gpus, m.gpu = gpu, m.nics_per_node = nics;
  if (nic > 0) m.nic = nic;
  return m;
}

MachineSpec fat_tree(MachineSpec m, int nodes_per_leaf, double oversubscription) {
  m.has_leaves = true, m.nodes_per_leaf = nodes_per_leaf, m.oversubscription = oversubscription;
  return m;
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string refusal(const MachineSpec& m) {
  try {
    completed(m);
  } catch (const ScenarioError& error) {
    return error.what();
  }
  return "accepted";
}

constexpr double hdr = 25e9, ndr = 50e9;  // 200 and 400 Gbit/s

}  // namespace

TEST_CASE("a ring over a written platform has the bandwidth asked for, from one GPU to 64 nodes of 8") {
  struct Case {
    MachineSpec machine;
    double bandwidth;
  };
  MachineSpec slow_ports = machine(2, 4, "h100-sxm", ndr, 4);
  slow_ports.intra_bandwidth = 100e9, slow_ports.nic_efficiency = 1;
  for (const auto& [spec, have_to] : {
           Case{machine(1, 2, "h100-sxm"), 360e9},                           // 0.8 of 450
           Case{machine(1, 8, "a100-sxm-80gb"), 240e9},                      // 0.8 of 300
           Case{machine(1, 8, "rtx-pro-6000"), 55e9},                        // PCIe 5 x16
           Case{machine(1, 4, "l40s"), 27.5e9},                              // PCIe 4 x16
           Case{machine(2, 8, "a100-sxm-80gb", hdr, 8), 180e9},              // eight NICs, 0.9 of 25 each
           Case{machine(4, 8, "h100-sxm", ndr, 8), 360e9},                   // 0.9 of 400, as much as NVLink
           Case{machine(4, 8, "h100-sxm", ndr), 45e9},                       // one NIC
           Case{machine(3, 1, "h100-sxm", ndr), 45e9},                       //
           Case{slow_ports, 100e9},                                          // the port, not 200 of NICs
           Case{fat_tree(machine(5, 3, "h200", ndr, 3), 2, 1), 135e9},       // three NICs; a leaf has twice that
           Case{fat_tree(machine(16, 8, "h100-sxm", ndr, 8), 4, 8), 180e9},  // a leaf's uplink: 4 x 360 / 8
           Case{machine(64, 8, "h100-sxm", ndr, 8), 360e9},
       }) {
    const MachineSpec whole = completed(spec);
    const int world = whole.nodes * whole.gpus_per_node;
    INFO(whole.nodes << " x " << whole.gpus_per_node << " " << whole.gpu);
    const PlatformFile file(platform_xml(whole, "by hand"));
    CHECK(ring_bandwidth(whole) == Approx(have_to));
    CHECK(bandwidth(file.path(), world, world, 1) == Approx(have_to).epsilon(1e-3));
  }
  const PlatformFile alone(platform_xml(completed(machine(1, 1, "h100-sxm")), "by hand"));
  CHECK(gather_seconds(alone.path(), 1, 1, 1, 1000) < 1e-4);
}

TEST_CASE("groups of one GPU per node share their nodes' NICs when they run side by side") {
  const PlatformFile file(platform_xml(completed(machine(2, 8, "a100-sxm-80gb", hdr, 8)), "by hand"));
  CHECK(bandwidth(file.path(), 16, 2, 8) == Approx(180e9 / 8).epsilon(1e-3));
  CHECK(bandwidth(file.path(), 16, 8, 1) == Approx(240e9).epsilon(1e-3));  // inside the nodes nobody is in the way
}

TEST_CASE("a hop takes NCCL's latency: 3.4 us over NVLink, 5.7 over PCIe, 14 between nodes, 1 more through the spine") {
  const auto latency = [](const MachineSpec& spec, int world, int size, int stride) {
    const PlatformFile file(platform_xml(completed(spec), "by hand"));
    const double launch = 5e-6;  // of the table's GPUs
    return gather_seconds(file.path(), world, size, stride, size) - launch;
  };
  CHECK(latency(machine(1, 2, "h100-sxm"), 2, 2, 1) == Approx(3.4e-6).epsilon(1e-3));
  CHECK(latency(machine(1, 2, "l40s"), 2, 2, 1) == Approx(5.7e-6).epsilon(1e-3));
  CHECK(latency(machine(2, 2, "h100-sxm", ndr), 4, 2, 2) == Approx(14e-6).epsilon(1e-3));
  CHECK(latency(machine(2, 2, "l40s", ndr), 4, 2, 2) == Approx(14e-6).epsilon(1e-3));
  CHECK(latency(fat_tree(machine(2, 2, "h100-sxm", ndr), 1, 1), 4, 2, 2) == Approx(15e-6).epsilon(1e-3));
}

TEST_CASE("nonsense is refused in one line that names the option") {
  const auto with = [](MachineSpec m, const auto& change) {
    change(m);
    return refusal(m);
  };
  const MachineSpec good = machine(4, 8, "h100-sxm", ndr, 8), box = machine(1, 8, "l40s");
  CHECK(refusal(good) == "accepted");
  CHECK(refusal(box) == "accepted");
  const std::pair<std::string, const char*> wrong[] = {
      {with(good, [](MachineSpec& m) { m.nodes = 0; }), "--nodes"},
      {with(good, [](MachineSpec& m) { m.nodes = 1 << 18; }), "--nodes"},
      {with(good, [](MachineSpec& m) { m.gpus_per_node = -1; }), "--gpus-per-node"},
      {with(good, [](MachineSpec& m) { m.nodes = 1 << 17, m.gpus_per_node = 9; }), "more than 1048576 GPUs"},
      {with(good, [](MachineSpec& m) { m.gpu = "h101"; }), "known GPUs"},
      {with(good, [](MachineSpec& m) { m.nic.reset(); }), "--nic is missing"},
      {with(good, [](MachineSpec& m) { m.nic = 0; }), "--nic: '0Bps' is out of range; write a rate from 1MBps to 1PBps"},
      {with(good, [](MachineSpec& m) { m.nics_per_node = 0; }), "--nics-per-node"},
      {with(good, [](MachineSpec& m) { m.nic_efficiency = 1.5; }), "--nic-efficiency"},
      {with(good, [](MachineSpec& m) { m.oversubscription = 2; }), "--topology fat-tree"},
      {with(good, [](MachineSpec& m) { m.has_leaves = true; }), "fit under one leaf"},
      {with(good, [](MachineSpec& m) { m.has_leaves = true, m.nodes_per_leaf = 2, m.oversubscription = 0.5; }),
       "--oversubscription"},
      {with(good, [](MachineSpec& m) { m.title = "a -- b"; }), "--title"},
      {with(box, [](MachineSpec& m) { m.nic = ndr; }), "one node has no network"},
      {with(box, [](MachineSpec& m) { m.nics_per_node = 8; }), "one node has no network"},
      {with(box, [](MachineSpec& m) { m.intra = "nvlink"; }), "has no NVLink"},
      {with(box, [](MachineSpec& m) { m.intra = "carrier pigeon"; }), "known: nvlink, pcie"},
      {with(box, [](MachineSpec& m) { m.intra_bandwidth = -1; }), "--intra-bandwidth"},
  };
  for (const auto& [text, part] : wrong) {
    INFO(part);
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
    CHECK(text.find('\n') == std::string::npos);
  }
}

TEST_CASE("a machine in a scenario is refused at the key that is wrong") {
  const Scratch folder;
  const auto refused = [&](const std::string& keys) -> std::string {
    folder.write("s.yaml", "schemes: [dp]\nworld: 2\nmodel: {kind: mlp, widths: [4, 4]}\nbatch: {micro: 1}\nplatform:\n" + keys);
    try {
      read_scenario(folder / "s.yaml", {}, built_in_schemes());
    } catch (const ScenarioError& error) {
      return error.what();
    }
    return "accepted";
  };
  const std::string two = "  gpu: h100-sxm\n  nodes: 2\n  nic: 400Gbps\n", one = "  gpu: l40s\n";
  CHECK(refused(two) == "accepted");
  const std::pair<std::string, const char*> wrong[] = {
      {"  gpu: abacus\n", "s.yaml:6: platform.gpu: 'abacus' is not in the table"},
      {"  gpu: h100-sxm\n  nodes: 2\n  nic: 1e300Gbps\n",
       "s.yaml:8: platform.nic: '1.25e+308Bps' is out of range; write a rate from 1MBps to 1PBps"},
      {"  gpu: h100-sxm\n  nodes: 2\n", "s.yaml:5: platform: nic is missing"},
      {two + "  nic_efficiency: 2\n", "s.yaml:9: platform.nic_efficiency: '2' is no share"},
      {two + "  topology: fat-tree\n", "s.yaml:9: platform.topology: fat-tree: 2 nodes fit under one leaf"},
      {one + "  intra: nvlink\n", "s.yaml:7: platform.intra: nvlink: a L40S has no NVLink"},
      {one + "  intra_bandwidth: 1Bps\n", "s.yaml:7: platform.intra_bandwidth: '1Bps' is out of range"},
      {one + "  nic: 400Gbps\n", "s.yaml:7: platform.nic: one node has no network"},
      {"  gpu: l40s\n  gpus_per_node: 100\n  nodes: 100000\n  nic: 400Gbps\n",
       "platform.nodes: 100000 nodes of 100 GPUs are more than 1048576"},
  };
  for (const auto& [keys, reason] : wrong) {
    const std::string text = refused(keys);
    INFO(reason);
    CHECK_MESSAGE(text.find(reason) != std::string::npos, text);
  }
}

TEST_CASE("every shipped platform carries a ring over all its GPUs") {
  for (const std::string& name : shipped_platforms()) {
    INFO(name);
    const fs::path file = platforms_folder() / (name + ".xml");
    const std::string xml = text_of(file);
    int gpus = 0;
    const std::regex radical("radical=\"(\\d+)-(\\d+)\"");
    for (std::sregex_iterator cluster(xml.begin(), xml.end(), radical), end; cluster != end; ++cluster)
      gpus += std::stoi((*cluster)[2]) - std::stoi((*cluster)[1]) + 1;
    REQUIRE(gpus >= 8);
    CHECK(bandwidth(file, gpus, gpus, 1) > 1e9);
  }
}

TEST_CASE("a shipped platform with a command is what the command writes") {
  int checked = 0;
  for (const std::string& name : shipped_platforms()) {
    const fs::path file = platforms_folder() / (name + ".xml");
    const std::string xml = text_of(file);
    std::smatch property;
    if (!std::regex_search(xml, property, std::regex("id=\"command\" value=\"([^\"]*)\""))) continue;
    INFO(name);
    const std::string command = property[1];
    REQUIRE(command.rfind("shardsim platform ", 0) == 0);
    const Scratch folder;
    const std::string output = (folder / "out.xml").string();
    REQUIRE(std::system((SHARDSIM_PROGRAM + command.substr(8) + " -o '" + output + "'").c_str()) == 0);
    CHECK(folder.read("out.xml") == xml);
    ++checked;
  }
  CHECK(checked >= 10);
}

TEST_CASE("a platform that cannot be written leaves nothing behind") {
  const Scratch folder;
  CHECK_THROWS_AS(write_whole_file(folder / "no/such/folder.xml", platform_file, "x"), ScenarioError);
  fs::create_directory(folder / "taken");
  CHECK_THROWS_AS(write_whole_file(folder / "taken", platform_file, "x"), ScenarioError);
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
  write_whole_file(folder / "fine.xml", platform_file, "x");
  CHECK(folder.read("fine.xml") == "x");
}
