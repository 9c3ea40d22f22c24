// The scenario's `platform`: a file, or a machine in a few numbers that is written as a platform file into memory.
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "app/fields.h"
#include "app/scenario.h"

namespace shardsim {

/// A file that has no place on a disk; gone with the object, seen under its path by this process and those that it forks.
class MemoryFile {
 public:
  /// Throws ScenarioError: no memory for it.
  explicit MemoryFile(const std::string& text);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

/// The shipped platform that a scenario calls so, wherever it lies; an empty path if there is none.
std::filesystem::path shipped_platform(const std::string& called);

/// Fills platform. A name or a path: beside the scenario, in the current folder, or among the shipped ones. A map, `{nodes: 2,
/// gpus_per_node: 8, gpu: h100-sxm, nic: 400Gbps, ...}`: the options of `shardsim platform`, with _ for -.
void read_platform(const YamlNode&, Scenario&, std::vector<std::string>& defaults);

}  // namespace shardsim
