// Reading a scenario's platform.
#include "app/scenario_platform.h"

#include <sys/mman.h>
#include <unistd.h>

#include "app/platform_writer.h"
#include "app/scenario_parts.h"
#include "core/error.h"
#include "core/quantity.h"

namespace shardsim {
namespace {

namespace fs = std::filesystem;

fs::path first_file(std::initializer_list<fs::path> candidates) {
  std::error_code error;
  for (const fs::path& candidate : candidates)
    if (fs::is_regular_file(candidate, error)) return candidate;
  return {};
}

fs::path find_platform(const YamlNode& node, const Scenario& scenario) {
  const std::string text = text_of(node);
  const fs::path found = first_file({beside_scenario(scenario, text), text, shipped_platform(text)});
  if (!found.empty()) return found;
  refuse(node, "there is no platform file " + quoted(text) +
                   " beside the scenario, in the current folder or among the shipped ones; "
                   "shipped platforms: " +
                   joined(shipped_platforms()) + "; or write a machine as {gpu: h100-sxm, gpus_per_node: 8}");
}

double rate_of(const YamlNode& node) {
  const std::string text = text_of(node);
  if (number_in(text)) refuse(node, quoted(text) + " has no unit; write for example 400Gbps or 360GBps");
  try {
    return parse_quantity(text, Measure::bytes_per_second);
  } catch (const std::invalid_argument& error) {
    refuse(node, error.what());
  }
}

/// The writer speaks of the command line: "--gpus-per-node" is `gpus_per_node` here.
std::string as_keys(std::string message) {
  if (const std::string prefix = "platform: "; message.starts_with(prefix)) message.erase(0, prefix.size());
  for (std::size_t at; (at = message.find("--")) != std::string::npos;) {
    message.erase(at, 2);
    for (; at < message.size() && (std::islower((unsigned char)message[at]) || message[at] == '-'); ++at)
      if (message[at] == '-') message[at] = '_';
  }
  return message;
}

MachineSpec machine_of(const YamlNode& node, std::vector<std::string>& defaults) {
  std::vector<std::string> unmentioned;
  const Fields fields(node,
                      {"nodes", "gpus_per_node", "gpu", "intra", "intra_bandwidth", "nic", "nics_per_node", "nic_efficiency",
                       "topology", "nodes_per_leaf", "oversubscription"},
                      unmentioned);
  MachineSpec machine;
  machine.nodes = int(fields.integer_or("nodes", 1, 1, most_nodes));
  machine.gpus_per_node = int(fields.integer_or("gpus_per_node", 8, 1, most_gpus_per_node));
  machine.gpu = text_of(fields.need("gpu", "gpu: h100-sxm"));
  if (const YamlNode* intra = fields.find("intra")) machine.intra = text_of(*intra);
  if (const YamlNode* rate = fields.find("intra_bandwidth")) machine.intra_bandwidth = rate_of(*rate);
  if (const YamlNode* rate = fields.find("nic")) machine.nic = rate_of(*rate);
  machine.nics_per_node = int(fields.integer_or("nics_per_node", 1, 1, most_nics_per_node));
  if (const YamlNode* share = fields.find("nic_efficiency")) machine.nic_efficiency = share_of(*share);
  else if (machine.nodes > 1) defaults.push_back("platform.nic_efficiency: 0.9");
  if (const YamlNode* topology = fields.find("topology")) machine.has_leaves = choice_of(*topology, {"switch", "fat-tree"}) == 1;
  for (const char* key : {"nodes_per_leaf", "oversubscription"})
    if (const YamlNode* of_leaf = fields.find(key); of_leaf && !machine.has_leaves)
      refuse(*of_leaf, "is a fat tree's; write topology: fat-tree too, or remove the key");
  machine.nodes_per_leaf = int(fields.integer_or("nodes_per_leaf", 4, 1, most_nodes_per_leaf));
  if (const YamlNode* factor = fields.find("oversubscription")) machine.oversubscription = number_of(*factor);
  try {
    return completed(machine);
  } catch (const ScenarioError& error) {
    const std::string message = as_keys(error.what()), key = message.substr(0, message.find_first_of(" :"));
    const YamlNode* of_key = fields.find(key);
    if (!of_key) refuse(node, message);
    refuse(*of_key, message.substr(message.find_first_not_of(" :", key.size())));
  }
}

}  // namespace

fs::path shipped_platform(const std::string& called) {
  const fs::path folder = platforms_folder();
  return first_file({folder / called, folder.parent_path() / called, folder / (called + ".xml")});
}

MemoryFile::MemoryFile(const std::string& text) : descriptor_(memfd_create("platform.xml", 0)) {
  std::size_t done = 0;
  while (descriptor_ >= 0 && done < text.size()) {
    const ssize_t n = write(descriptor_, text.data() + done, text.size() - done);
    if (n <= 0) break;
    done += std::size_t(n);
  }
  if (done < text.size())
    throw ScenarioError("platform: there is no memory for the platform file that is made of the scenario's map");
}

MemoryFile::~MemoryFile() { close(descriptor_); }

void read_platform(const YamlNode& node, Scenario& scenario, std::vector<std::string>& defaults) {
  if (node.kind != YamlNode::Kind::map) {
    scenario.platform = scenario.files[node.key] = find_platform(node, scenario);
    return;
  }
  const MachineSpec machine = machine_of(node, defaults);
  scenario.generated_platform =
      std::make_shared<const MemoryFile>(platform_xml(machine, "the platform of " + scenario.file.string()));
  scenario.platform = scenario.generated_platform->path();
}

}  // namespace shardsim
