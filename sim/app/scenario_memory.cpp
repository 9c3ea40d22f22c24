// Reading a scenario's memory.
#include "app/scenario_memory.h"

#include "app/table.h"

namespace shardsim {
namespace {

using namespace memory;

std::int64_t size_of(const YamlNode& node) {
  const double bytes = bytes_of(node);
  if (!(bytes >= 0 && bytes <= double(std::int64_t{1} << 50)))
    refuse(node, quoted(node.text) + " is out of range; write a size from 0B to 1PiB");
  return std::int64_t(bytes);
}

AllocatorOptions options_of(const Fields& fields) {
  AllocatorOptions options;
  if (const YamlNode* node = fields.find("max_split_size_mb")) options.max_split_size_mb = integer_of(*node, 21, 1 << 20);
  if (const YamlNode* node = fields.find("roundup_power2_divisions")) {
    options.roundup_power2_divisions = int(integer_of(*node, 1, 64));
    if ((options.roundup_power2_divisions & (options.roundup_power2_divisions - 1)) != 0)
      refuse(*node, quoted(node->text) + " is no power of two; write 1, 2, 4, 8, 16, 32 or 64");
  }
  if (const YamlNode* node = fields.find("garbage_collection_threshold")) {
    options.garbage_collection_threshold = share_of(*node);
    if (options.garbage_collection_threshold == 0 || options.garbage_collection_threshold == 1)
      refuse(*node, quoted(node->text) + " is out of range; write a share of the memory between 0 and 1, such as 0.8 or 80%");
  }
  if (const YamlNode* node = fields.find("expandable_segments")) options.expandable_segments = switch_of(*node);
  return options;
}

/// A size, or the channels that it is computed from.
std::int64_t communicator_of(const YamlNode& node, std::vector<std::string>& defaults) {
  if (node.kind != YamlNode::Kind::map) return size_of(node);
  return communicator_bytes(
      integer_of(Fields(node, {"channels"}, defaults).need("channels", "communicator: {channels: 16}"), 0, 64));
}

}  // namespace

void read_memory(const Fields& root, Scenario& scenario, std::vector<std::string>& defaults) {
  const YamlNode* node = root.find("memory");
  if (!node) return;
  Settings& memory = scenario.memory;
  std::vector<std::string> unmentioned;
  const Fields fields(*node,
                      {"allocator", "max_split_size_mb", "roundup_power2_divisions", "garbage_collection_threshold",
                       "expandable_segments", "cublas_workspace", "cublas_workspaces", "context", "communicator"},
                      unmentioned);
  if (const YamlNode* allocator = fields.find("allocator")) memory.torch = choice_of(*allocator, {"exact", "torch"}) == 1;
  if (scenario.backend != "simgrid")
    refuse(*node, "describes the memory of a simulated GPU, but backend: " + scenario.backend +
                      " has none; drop it or use backend: simgrid");
  memory.options = options_of(fields);
  for (const char* key : {"max_split_size_mb", "roundup_power2_divisions", "garbage_collection_threshold", "expandable_segments",
                          "cublas_workspace", "cublas_workspaces"})
    if (const YamlNode* option = fields.find(key); option && !memory.torch)
      refuse(*option, "is an option of PyTorch's allocator, but the scenario's is exact; write allocator: torch beside it");

  const auto value = [&](const char* key, std::int64_t otherwise, const std::string& in_words, auto read) {
    if (const YamlNode* given = fields.find(key)) return std::int64_t(read(*given));
    if (!memory.torch) return std::int64_t{0};
    defaults.push_back("memory." + std::string(key) + ": " + in_words);
    return otherwise;
  };
  memory.cublas_workspace = value("cublas_workspace", typical_cublas_workspace, "8.125MiB", size_of);
  memory.cublas_workspaces = int(
      value("cublas_workspaces", typical_cublas_workspaces, "2", [](const YamlNode& given) { return integer_of(given, 0, 64); }));
  memory.context = value("context", typical_context, "500MiB", size_of);
  memory.communicator = value("communicator", communicator_bytes(typical_channels),
                              "{channels: " + std::to_string(typical_channels) + "} (" +
                                  bytes_text(double(communicator_bytes(typical_channels))) + " each)",
                              [&](const YamlNode& given) { return communicator_of(given, unmentioned); });
  memory.has_outside = memory.torch || fields.find("context") || fields.find("communicator");
}

}  // namespace shardsim
