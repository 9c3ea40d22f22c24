// The grid of a sweep: axes of scenario keys and the values that they take, from the command line or the scenario's `sweep:` block.
#pragma once
#include <string>
#include <vector>

#include "app/yaml_reader.h"

namespace shardsim {

/// Keys that move together, and their values: one of `values` is a value for each key, as YAML.
struct SweepAxis {
  std::vector<std::string> keys;
  std::vector<std::vector<std::string>> values;
  std::string place;  ///< "--grid", or "file.yaml:7: sweep", for messages
};

/// "batch.micro=1,2,4", "units=whole,layer,{bucket: 25MB}"; coupled keys: "batch.micro,batch.accumulation=1:8,2:4". Throws
/// ScenarioError.
SweepAxis read_axis(const std::string& text);

/// The axes of a `sweep:` block, {batch.micro: [1, 2, 4], "batch.micro, batch.accumulation": [1:8, 2:4]}. Throws ScenarioError.
std::vector<SweepAxis> read_sweep_block(const YamlNode&);

class SweepGrid {
 public:
  /// An axis of the command line takes the place of those of the block that share a key with it. Throws ScenarioError: no axis at
  /// all, a key twice, or one that is a part of another.
  SweepGrid(std::vector<SweepAxis> of_block, std::vector<SweepAxis> of_command_line);

  const std::vector<SweepAxis>& axes() const { return axes_; }
  std::vector<std::string> keys() const;
  /// How many points there are; a double, since a product of many axes is more than any integer holds.
  double size() const;
  /// Which of each axis' values point `i` has; the last axis runs fastest.
  std::vector<std::size_t> choices(std::size_t i) const;
  /// The values of point `i`, in the order of keys().
  std::vector<std::string> cells(std::size_t i) const;

 private:
  std::vector<SweepAxis> axes_;
};

/// True if one of the keys is the other, or lies in it: batch and batch.micro.
bool keys_meet(const std::string& a, const std::string& b);

}  // namespace shardsim
