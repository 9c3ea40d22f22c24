// YAML to a plain tree, through yaml-cpp.
#include "app/yaml_reader.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "core/error.h"

namespace shardsim {
namespace {

constexpr int deepest = 32, most_nodes = 100'000;  // an alias that contains itself would have no end

struct Conversion {
  std::string file;  // empty on the command line
  int nodes = 0;

  std::string origin(const YAML::Mark& mark) const { return file.empty() ? "--set" : file + ":" + std::to_string(mark.line + 1); }

  YamlNode convert(const YAML::Node& from, const std::string& name, const std::string& key, int depth) {
    YamlNode to;
    to.name = name, to.key = key;
    to.origin = origin(from.Mark()), to.line = file.empty() ? 0 : from.Mark().line + 1;
    if (depth > deepest || ++nodes > most_nodes) refuse(to, "is nested too deeply or far too large; does an alias contain itself?");
    switch (from.Type()) {
      case YAML::NodeType::Scalar:
        to.kind = YamlNode::Kind::scalar;
        to.text = from.Scalar();
        to.quoted = from.Tag() == "!";
        break;
      case YAML::NodeType::Sequence:
        to.kind = YamlNode::Kind::list;
        for (const auto& item : from) {
          const std::string index = "[" + std::to_string(to.children.size()) + "]";
          to.children.push_back(convert(item, index, key + index, depth + 1));
        }
        break;
      case YAML::NodeType::Map:
        to.kind = YamlNode::Kind::map;
        for (const auto& field : from) {
          if (!field.first.IsScalar()) refuse(to, "has a key that is not a plain name");
          const std::string& child = field.first.Scalar();
          to.children.push_back(convert(field.second, child, key.empty() ? child : key + "." + child, depth + 1));
          // The key's line, not the value's: a value may begin on the next one.
          to.children.back().origin = origin(field.first.Mark());
          if (!file.empty()) to.children.back().line = field.first.Mark().line + 1;
        }
        break;
      default:
        break;
    }
    return to;
  }
};

bool is_utf8(const std::string& text, std::size_t& bad) {
  for (std::size_t i = 0; i < text.size();) {
    bad = i;
    const unsigned char c = text[i];
    const int length = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
    if (length == 0 || i + length > text.size() || c == 0) return false;
    for (int k = 1; k < length; ++k)
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return false;
    i += length;
  }
  return true;
}

std::string content(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) throw ScenarioError(file.string() + ": there is no such file; check the path");
  if (!std::filesystem::is_regular_file(file, error) && !std::filesystem::is_fifo(file, error) &&
      !std::filesystem::is_character_file(file, error))
    throw ScenarioError(file.string() + ": is a folder, not a scenario; name a .yaml file");
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream)
    throw ScenarioError(file.string() +
                        (text.str().empty() ? ": is empty or cannot be read; a scenario is a YAML map" : ": cannot be read"));
  return text.str();
}

std::vector<std::string> split(const std::string& dotted) {
  std::vector<std::string> names;
  std::istringstream stream(dotted);
  for (std::string name; std::getline(stream, name, '.');) names.push_back(name);
  return names;
}

void emit(YAML::Emitter& out, const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::nothing:
      out << YAML::Null;
      break;
    case YamlNode::Kind::scalar:
      if (node.quoted) out << YAML::SingleQuoted;
      out << node.text;
      break;
    case YamlNode::Kind::list:
      out << YAML::Flow << YAML::BeginSeq;
      for (const YamlNode& child : node.children) emit(out, child);
      out << YAML::EndSeq;
      break;
    case YamlNode::Kind::map:
      out << (node.key.empty() ? YAML::Block : YAML::Flow) << YAML::BeginMap;
      for (const YamlNode& child : node.children) {
        out << YAML::Key << child.name << YAML::Value;
        emit(out, child);
      }
      out << YAML::EndMap;
  }
}

}  // namespace

const YamlNode* YamlNode::child(const std::string& wanted) const {
  for (const YamlNode& node : children)
    if (node.name == wanted) return &node;
  return nullptr;
}

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) {
    if (out.size() > 60) return out + "...'";
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  }
  return out + "'";
}

std::string in_words(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::nothing:
      return "nothing";
    case YamlNode::Kind::list:
      return "a list";
    case YamlNode::Kind::map:
      return "a map";
    default:
      return quoted(node.text);
  }
}

void refuse(const YamlNode& node, const std::string& what) {
  if (node.origin == "--set") throw ScenarioError("--set " + node.key + ": " + what);
  throw ScenarioError(node.origin + ": " + (node.key.empty() ? "" : node.key + ": ") + what);
}

YamlNode read_yaml(const std::filesystem::path& file) {
  const std::string text = content(file), name = file.string();
  std::size_t bad = 0;
  if (!is_utf8(text, bad)) {
    const auto line = 1 + std::count(text.begin(), text.begin() + std::ptrdiff_t(bad), '\n');
    throw ScenarioError(name + ":" + std::to_string(line) + ": is not UTF-8 text; save the file as UTF-8");
  }
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.empty() || (documents.size() == 1 && documents[0].IsNull()))
      throw ScenarioError(name + ":1: is empty; a scenario is a YAML map, see scenarios/four_schemes.yaml");
    if (documents.size() > 1)
      throw ScenarioError(name + ":" + std::to_string(documents[1].Mark().line + 1) +
                          ": a second YAML document begins here; a scenario file holds one");
    YamlNode root = Conversion{name}.convert(documents[0], "", "", 0);
    if (root.kind != YamlNode::Kind::map) refuse(root, "a scenario is a map of keys and values; this is " + in_words(root));
    return root;
  } catch (const YAML::Exception& error) {
    const int line = error.mark.is_null() ? 1 : error.mark.line + 1;
    throw ScenarioError(name + ":" + std::to_string(line) + ": is not YAML: " + error.msg +
                        (text.find('\t') < text.size() ? " (YAML is indented with spaces, never with tabs)" : ""));
  }
}

std::string yaml_text(const YamlNode& root) {
  YAML::Emitter out;
  emit(out, root);
  return std::string(out.c_str()) + "\n";
}

void override_yaml(YamlNode& root, const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  const std::string key = assignment.substr(0, equals);
  const std::vector<std::string> names = split(key);
  if (equals == std::string::npos || names.empty() || key.back() == '.' || std::count(names.begin(), names.end(), "") > 0)
    throw ScenarioError("--set " + quoted(assignment) + ": has to be key=value, as in --set batch.micro=4");
  YamlNode* node = &root;
  std::string path;
  for (const std::string& name : names) {
    if (node->kind == YamlNode::Kind::nothing) node->kind = YamlNode::Kind::map;
    if (node->kind != YamlNode::Kind::map)
      throw ScenarioError("--set " + key + ": " + path + " is " + in_words(*node) + " in " + node->origin + ", not a map; set " +
                          path + " as a whole");
    path += (path.empty() ? "" : ".") + name;
    const YamlNode* found = node->child(name);
    if (!found) {
      YamlNode fresh;
      fresh.name = name, fresh.key = path, fresh.origin = "--set";
      node->children.push_back(fresh);
      found = &node->children.back();
    }
    node = const_cast<YamlNode*>(found);
  }
  try {
    *node = Conversion{}.convert(YAML::Load(assignment.substr(equals + 1)), names.back(), key, 0);
  } catch (const YAML::Exception& error) {
    throw ScenarioError("--set " + key + ": " + quoted(assignment.substr(equals + 1)) + " is not YAML: " + error.msg);
  }
}

}  // namespace shardsim
