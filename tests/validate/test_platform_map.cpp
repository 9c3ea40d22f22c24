// A scenario's machine in a few numbers, in place of a platform file.
#include <doctest/doctest.h>

#include "app/platform_writer.h"
#include "app/whole_file.h"
#include "app/prediction.h"
#include "core/error.h"
#include "validate/tables.h"

using namespace shardsim;
using test::TableFolder;

namespace {

const std::string one_row = "batch.micro,measured.step_seconds\n2,1\n";

std::string with_platform(const std::string& platform) {
  return "schemes: [zero3]\nplatform: " + platform +
         "\nworld: 4\nmodel: {kind: gpt2, layers: 2, hidden: 256, heads: 4, vocab: 512, positions: 128}\nnumerics: off\n";
}

/// The step's seconds on this platform.
double step_on(const TableFolder& tables, const std::string& platform) {
  tables.folder().write("base.yaml", with_platform(platform));
  const MeasurementTable table = tables.read(one_row);
  return predict(table, table.rows[0], {}, tables.registry()).seconds;
}

std::string refusal(const TableFolder& tables, const std::string& platform) {
  return test::refusal_of(tables, [&] { step_on(tables, platform); });
}

}  // namespace

TEST_CASE("a machine in numbers is the platform that `shardsim platform` writes for it") {
  TableFolder tables;
  MachineSpec machine;
  machine.nodes = 2, machine.gpus_per_node = 2, machine.gpu = "h100-sxm", machine.nic = 50e9, machine.nics_per_node = 2;
  write_whole_file(tables.folder() / "written.xml", platform_file, platform_xml(completed(machine), "shardsim platform"));
  const double mapped = step_on(tables, "{nodes: 2, gpus_per_node: 2, gpu: h100-sxm, nic: 400Gbps, nics_per_node: 2}");
  CHECK(mapped == step_on(tables, "written.xml"));
  CHECK(mapped < step_on(tables, "{nodes: 2, gpus_per_node: 2, gpu: h100-sxm, nic: 100Gbps}"));
  CHECK(mapped > step_on(tables, "{gpus_per_node: 4, gpu: h100-sxm}"));
}

TEST_CASE("what is wrong about a machine is said in the scenario's words, with its line") {
  TableFolder tables;
  CHECK(refusal(tables, "{gpus: 8}").find("base.yaml:2: platform.gpus: unknown key; known keys: nodes, gpus_per_node") !=
        std::string::npos);
  CHECK(refusal(tables, "{gpus_per_node: 8}").find("platform: the key 'gpu' is missing") != std::string::npos);
  CHECK(refusal(tables, "{gpu: abacus}").find("base.yaml:2: platform.gpu: 'abacus' is not in the table") != std::string::npos);
  const std::string no_network = refusal(tables, "{gpu: h100-sxm, nodes: 2, gpus_per_node: 2}");
  CHECK(no_network.find("platform: nic is missing") != std::string::npos);
  CHECK(no_network.find("--") == std::string::npos);
  CHECK(refusal(tables, "{gpu: h100-sxm, nodes: 2, nic: 400}").find("'400' has no unit") != std::string::npos);
  CHECK(refusal(tables, "{gpu: h100-sxm, topology: torus}").find("platform.topology: unknown value 'torus'") != std::string::npos);
  CHECK(refusal(tables, "{gpu: h100-sxm, gpus_per_node: 2}").find("4") != std::string::npos);  // ranks than there are GPUs
}

TEST_CASE("what the host does as a step begins is in the step, once") {
  TableFolder tables;
  const MeasurementTable table = tables.read("batch.accumulation,measured.step_seconds\n1,1\n5,1\n");
  for (const MeasuredRow& row : table.rows) {
    const double without = predict(table, row, {}, tables.registry()).seconds;
    const double with = predict(table, row, {"prices.step_host_seconds=24ms"}, tables.registry()).seconds;
    CHECK(with - without == doctest::Approx(0.024).epsilon(1e-6));
  }
}
