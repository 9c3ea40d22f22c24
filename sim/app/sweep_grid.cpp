// The grid of a sweep: reading axes strictly, and counting through them.
#include "app/sweep_grid.h"

#include <algorithm>
#include <optional>
#include <sstream>

#include "app/fields.h"
#include "core/error.h"

namespace shardsim {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text + separator);  // so that an empty last part counts
  for (std::string part; std::getline(stream, part, separator);) {
    const std::size_t first = part.find_first_not_of(' '), last = part.find_last_not_of(' ');
    parts.push_back(first == std::string::npos ? "" : part.substr(first, last - first + 1));
  }
  return parts;
}

std::string one_line(const YamlNode& node) {
  std::string text = yaml_text(node);
  return text.substr(0, text.find_last_not_of('\n') + 1);
}

/// A value for each of the axis' keys.
std::vector<std::string> values_of(const YamlNode& item, std::size_t keys) {
  if (keys == 1) return {one_line(item)};
  std::vector<std::string> values;
  if (item.kind == YamlNode::Kind::list)
    for (const YamlNode& part : item.children) values.push_back(one_line(part));
  else if (item.kind == YamlNode::Kind::scalar) values = split(item.text, ':');
  return values;
}

/// 2, 2.0 and 2e0 are one point.
bool are_equal(const std::string& a, const std::string& b) {
  const std::optional<double> of_a = number_in(a), of_b = number_in(b);
  return a == b || (of_a && of_b && *of_a == *of_b);
}

/// As it stands in the grid: 1:8.
std::string listed(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ":") + value;
  return text;
}

SweepAxis axis_of(const std::string& keys, const YamlNode& list, const std::string& place) {
  SweepAxis axis{split(keys, ','), {}, place};
  const auto refuse = [&](const std::string& what) { throw ScenarioError(place + " " + keys + ": " + what); };
  const std::string example = "write for example batch.micro=1,2,4";
  for (const std::string& key : axis.keys) {
    if (key.empty() || key.front() == '.' || key.back() == '.' || key.find("..") != std::string::npos)
      refuse(quoted(key) + " is no key of a scenario; " + example);
    if (keys_meet(key, "sweep")) refuse("a grid cannot change the grid; remove it");
    if (std::count(axis.keys.begin(), axis.keys.end(), key) > 1) refuse(quoted(key) + " stands there twice; remove one");
  }
  if (list.kind != YamlNode::Kind::list) refuse("is " + in_words(list) + ", but has to be a list of values, as in [1, 2, 4]");
  if (list.children.empty()) refuse("has no values; " + example);
  for (const YamlNode& item : list.children) {
    if (item.kind == YamlNode::Kind::nothing || one_line(item).empty())
      refuse("value " + std::to_string(axis.values.size() + 1) + " is empty; " + example);
    const std::vector<std::string> values = values_of(item, axis.keys.size());
    if (values.size() != axis.keys.size() || std::count(values.begin(), values.end(), "") > 0)
      refuse(quoted(one_line(item)) + " has to be " + std::to_string(axis.keys.size()) + " values, one for each key, as in 1:8");
    for (const std::vector<std::string>& other : axis.values)
      if (other == values) refuse(quoted(one_line(item)) + " stands there twice; remove one");
      else if (std::equal(other.begin(), other.end(), values.begin(), are_equal))
        refuse(quoted(one_line(item)) + " is the same as " + quoted(listed(other)) + "; remove one");
    axis.values.push_back(values);
  }
  return axis;
}

bool axes_meet(const SweepAxis& a, const SweepAxis& b) {
  return std::any_of(a.keys.begin(), a.keys.end(), [&](const std::string& key) {
    return std::any_of(b.keys.begin(), b.keys.end(), [&](const std::string& other) { return keys_meet(key, other); });
  });
}

}  // namespace

bool keys_meet(const std::string& a, const std::string& b) {
  return (a + ".").starts_with(b + ".") || (b + ".").starts_with(a + ".");
}

SweepAxis read_axis(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw ScenarioError("--grid " + quoted(text) + ": has to be key=value,value, as in --grid batch.micro=1,2,4");
  YamlNode tree;
  try {
    override_yaml(tree, "values=[" + text.substr(equals + 1) + "]");
  } catch (const ScenarioError&) {
    throw ScenarioError("--grid " + text.substr(0, equals) + ": " + quoted(text.substr(equals + 1)) +
                        " is no row of YAML values, as in whole,layer,{bucket: 25MB}");
  }
  return axis_of(text.substr(0, equals), tree.children[0], "--grid");
}

std::vector<SweepAxis> read_sweep_block(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::map || node.children.empty())
    refuse(node, "is " + in_words(node) + ", but has to be a map of keys and lists, as in {batch.micro: [1, 2, 4]}");
  std::vector<SweepAxis> axes;
  for (const YamlNode& child : node.children) {
    axes.push_back(axis_of(child.name, child, child.origin + ": sweep:"));
    for (std::size_t i = 0; i + 1 < axes.size(); ++i)
      if (axes_meet(axes[i], axes.back())) refuse(child, "a key of it is in the block already; remove one");
  }
  return axes;
}

SweepGrid::SweepGrid(std::vector<SweepAxis> of_block, std::vector<SweepAxis> of_command_line) {
  for (std::size_t i = 0; i < of_command_line.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (axes_meet(of_command_line[j], of_command_line[i]))
        throw ScenarioError("--grid " + of_command_line[i].keys[0] + ": a key of it is in the grid already, by --grid " +
                            of_command_line[j].keys[0] + "; remove one");
  for (SweepAxis& axis : of_block)
    if (std::none_of(of_command_line.begin(), of_command_line.end(),
                     [&](const SweepAxis& other) { return axes_meet(axis, other); }))
      axes_.push_back(std::move(axis));
  std::move(of_command_line.begin(), of_command_line.end(), std::back_inserter(axes_));
  if (axes_.empty())
    throw ScenarioError("sweep: there is no grid; write --grid batch.micro=1,2,4, or a block sweep: in the scenario");
}

std::vector<std::string> SweepGrid::keys() const {
  std::vector<std::string> keys;
  for (const SweepAxis& axis : axes_) keys.insert(keys.end(), axis.keys.begin(), axis.keys.end());
  return keys;
}

double SweepGrid::size() const {
  double size = 1;
  for (const SweepAxis& axis : axes_) size *= double(axis.values.size());
  return size;
}

std::vector<std::size_t> SweepGrid::choices(std::size_t i) const {
  std::vector<std::size_t> chosen(axes_.size());
  for (std::size_t axis = axes_.size(); axis-- > 0; i /= axes_[axis].values.size()) chosen[axis] = i % axes_[axis].values.size();
  return chosen;
}

std::vector<std::string> SweepGrid::cells(std::size_t i) const {
  const std::vector<std::size_t> chosen = choices(i);
  std::vector<std::string> cells;
  for (std::size_t axis = 0; axis < axes_.size(); ++axis)
    cells.insert(cells.end(), axes_[axis].values[chosen[axis]].begin(), axes_[axis].values[chosen[axis]].end());
  return cells;
}

}  // namespace shardsim
