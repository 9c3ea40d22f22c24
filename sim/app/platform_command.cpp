// The subcommand `shardsim platform`: options, and the command as it is kept in the file.
#include "app/platform_command.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <stdexcept>

#include "app/fields.h"
#include "app/platform_writer.h"
#include "app/whole_file.h"
#include "core/error.h"
#include "core/quantity.h"

namespace shardsim {
namespace {

struct Options {
  MachineSpec machine;
  std::string intra_bandwidth, nic, nic_efficiency, topology = "switch", output;
};

std::optional<double> rate(const char* option, const std::string& text) {
  if (text.empty()) return {};
  try {
    const double value = parse_quantity(text, Measure::bytes_per_second);
    if (text.find_first_not_of("0123456789.eE+-") == std::string::npos)
      throw std::invalid_argument("'" + text + "' has no unit; write for example 400Gbps or 360GBps");
    return value;
  } catch (const std::invalid_argument& error) {
    throw ScenarioError(std::string("platform: --") + option + ": " + error.what());
  }
}

/// What was said, in the order of the options: the same machine, the same words.
std::string command_of(const CLI::App& command) {
  std::string text = "shardsim platform";
  for (const CLI::Option* option : command.get_options())
    if (option->count() > 0 && option->get_name() != "--output")
      text += " " + option->get_name() +
              (option->get_name() == "--title" ? " '" + option->results()[0] + "'" : " " + option->results()[0]);
  return text;
}

void write(const CLI::App& command, const Options& options) {
  MachineSpec machine = options.machine;
  machine.intra_bandwidth = rate("intra-bandwidth", options.intra_bandwidth);
  machine.nic = rate("nic", options.nic);
  if (!options.nic_efficiency.empty()) machine.nic_efficiency = *share_in(options.nic_efficiency);  // the usage has checked it
  machine.has_leaves = options.topology == "fat-tree";
  if (!machine.has_leaves && command.get_option("--nodes-per-leaf")->count() > 0)
    throw ScenarioError("platform: --nodes-per-leaf is a fat tree's; say --topology fat-tree");
  machine = completed(machine);
  const std::string xml = platform_xml(machine, command_of(command));
  if (options.output.empty()) std::cout << xml;
  else write_whole_file(options.output, platform_file, xml);
  if (!std::cout.flush()) throw ScenarioError("standard output: cannot be written");
}

}  // namespace

std::function<void()> add_platform_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("platform", "Write the platform file of a machine that need not exist");
  const auto options = std::make_shared<Options>();
  MachineSpec& machine = options->machine;
  command->add_option("--title", machine.title, "A few words in front of the file's comment")->type_name("TEXT");
  command->add_option("--nodes", machine.nodes, "Nodes (default: 1)");
  command->add_option("--gpus-per-node", machine.gpus_per_node, "GPUs of a node (default: 8)");
  command->add_option("--gpu", machine.gpu, "A GPU of `shardsim list gpus`")->required();
  command->add_option("--intra", machine.intra, "nvlink or pcie (default: what the GPU has)")
      ->check(CLI::IsMember({"nvlink", "pcie"}));
  command
      ->add_option("--intra-bandwidth", options->intra_bandwidth,
                   "What a ring reaches of a GPU's port, per direction (default: 0.8 of NVLink, 0.87 of PCIe)")
      ->type_name("RATE");
  command->add_option("--nic", options->nic, "A NIC's rate on paper, as in 400Gbps; of several nodes only")->type_name("RATE");
  command->add_option("--nics-per-node", machine.nics_per_node, "NICs of a node (default: 1)");
  command->add_option("--nic-efficiency", options->nic_efficiency, "What a ring reaches of a NIC (default: 0.9)")
      ->type_name("SHARE");
  command->add_option("--topology", options->topology, "switch (default) or fat-tree")
      ->check(CLI::IsMember({"switch", "fat-tree"}));
  command->add_option("--nodes-per-leaf", machine.nodes_per_leaf, "Nodes under a leaf of a fat tree (default: 4)");
  command->add_option("--oversubscription", machine.oversubscription, "Of a leaf: down / up (default: 1)");
  command->add_option("-o,--output", options->output, "File (default: standard output)")->type_name("FILE");
  return [command, options] { write(*command, *options); };
}

}  // namespace shardsim
