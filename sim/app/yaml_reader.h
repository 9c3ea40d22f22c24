// YAML as a plain tree in which every value knows its key and the line it came from; and the overrides of the command line.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace shardsim {

struct YamlNode {
  enum class Kind { nothing, scalar, list, map };
  Kind kind = Kind::nothing;
  std::string name;    ///< its key in the map it stands in
  std::string key;     ///< dotted, for messages: "batch.micro", "widths[1]"; empty for the whole file
  std::string origin;  ///< "scenario.yaml:3", or "--set" for a value of the command line
  int line = 0;        ///< 0 for a value of the command line
  std::string text;    ///< of a scalar
  bool quoted = false;
  std::vector<YamlNode> children;  ///< of a list or a map, as written: keys may occur twice

  const YamlNode* child(const std::string& wanted) const;
};

/// Reads a file that holds one YAML map. Throws ScenarioError: missing file, not UTF-8, a syntax error, several documents.
YamlNode read_yaml(const std::filesystem::path& file);
/// The same of what is in a file called `name`.
YamlNode parse_yaml(std::string text, const std::string& name);

/// Replaces or adds the value of "dotted.key=value"; the value is YAML itself ("[dp, zero1]"). Throws ScenarioError.
void override_yaml(YamlNode& root, const std::string& assignment);

/// The tree as a YAML file: one line per key of the root. Another node than the root is one line.
std::string yaml_text(const YamlNode&);

/// Throws ScenarioError with one line: "file:line: key: what".
[[noreturn]] void refuse(const YamlNode&, const std::string& what);

/// `text` in quotes, without line breaks and not longer than a message can bear.
std::string quoted(const std::string& text);

/// "a map", "a list", "'text'": what stands there, for messages.
std::string in_words(const YamlNode&);

}  // namespace shardsim
