// YAML to a plain tree, through yaml-cpp.
#include "app/yaml_reader.h"

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "core/error.h"

namespace shardsim {
namespace {

constexpr std::uintmax_t largest = 16 << 20;
constexpr int deepest = 32, most_nodes = 100'000;  // an alias that contains itself would have no end

/// Below 0x20, 0x7f, and U+0080 to U+009f: a terminal obeys them, and a table breaks at them.
bool has_control_character(const std::string& text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = text[i], next = i + 1 < text.size() ? text[i + 1] : 0;
    if (c < 0x20 || c == 0x7f || (c == 0xc2 && next >= 0x80 && next < 0xa0)) return true;
  }
  return false;
}

class Conversion {
 public:
  /// `file` is empty on the command line.
  Conversion(std::string file, const std::string& text) : file_(std::move(file)), text_(text) {
    for (std::size_t i = 0; i < text.size(); ++i)
      if (text[i] == '\n') lines_.push_back(i + 1);
  }

  YamlNode convert(const YAML::Node& from, const std::string& name, const std::string& key, int depth) {
    YamlNode to;
    to.name = name, to.key = key;
    to.origin = origin(from.Mark()), to.line = file_.empty() ? 0 : from.Mark().line + 1;
    if (depth > deepest || ++nodes_ > most_nodes)
      refuse(to, "is nested too deeply or far too large; does an alias contain itself?");
    if (const std::string tag = from.Tag(); from.IsDefined() && !tag.empty() && tag != "?" && tag != "!")
      refuse(to, "has the tag " + quoted(tag) + "; what a value is follows from its key, so remove the tag");
    switch (from.Type()) {
      case YAML::NodeType::Scalar:
        to.kind = YamlNode::Kind::scalar;
        to.text = from.Scalar();
        while (to.text.ends_with('\n')) to.text.pop_back();  // how a text after | or > ends
        to.quoted = from.Tag() == "!";
        check_text(from, to);
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
          YamlNode place = to;  // the key's line, not the value's: a value may begin on the next one
          place.origin = origin(field.first.Mark()), place.line = file_.empty() ? 0 : field.first.Mark().line + 1;
          if (!field.first.IsScalar()) refuse(place, "has a key that is not a plain name; is a value missing its quotes?");
          const std::string& child = field.first.Scalar();
          check_text(field.first, place);
          to.children.push_back(convert(field.second, child, key.empty() ? child : key + "." + child, depth + 1));
          to.children.back().origin = place.origin, to.children.back().line = place.line;
        }
        break;
      default:
        break;
    }
    return to;
  }

 private:
  std::string origin(const YAML::Mark& mark) const { return file_.empty() ? "--set" : file_ + ":" + std::to_string(mark.line + 1); }

  /// A quote that is not closed, or a value that goes on where a key was meant, would take the lines after it.
  void check_text(const YAML::Node& from, const YamlNode& place) const {
    const std::string& value = from.Scalar();
    if (has_control_character(value.substr(0, value.find_last_not_of('\n') + 1)))
      refuse(place, quoted(value) + " has a line break or another control character; remove it");
    const YAML::Mark mark = from.Mark();
    if (mark.is_null() || std::size_t(mark.line) >= lines_.size()) return;
    std::size_t at = lines_[std::size_t(mark.line)] + std::size_t(mark.column);
    while (at < text_.size() && (text_[at] == '&' || text_[at] == '!')) {  // an anchor stands before its value
      at = std::min(text_.find_first_of(" \t\n", at), text_.size());
      at = std::min(text_.find_first_not_of(" \t\n", at), text_.size());
    }
    if (at >= text_.size() || text_[at] == '|' || text_[at] == '>') return;  // says that it has several lines
    const char quote = text_[at];
    if (from.Tag() != "!" || (quote != '\'' && quote != '"')) {
      if (text_.compare(at, value.size(), value) != 0)
        refuse(place, quoted(value) + " goes on over several lines; is a colon missing, or is a line indented too far?");
      return;
    }
    for (std::size_t i = at + 1; i < text_.size(); ++i) {
      const bool is_pair = text_.compare(i, 2, "''") == 0;
      if (text_[i] == '\n')
        refuse(place, quoted(text_.substr(at, i - at)) + " has a quote that is not closed on its line; close it");
      if (quote == '"' ? text_[i] == '\\' : is_pair) ++i;
      else if (text_[i] == quote) return;
    }
  }

  std::string file_;
  const std::string& text_;
  std::vector<std::size_t> lines_ = {0};  // where each begins
  int nodes_ = 0;
};

bool is_utf8(const std::string& text, std::size_t& bad) {
  for (std::size_t i = 0; i < text.size();) {
    bad = i;
    const unsigned char c = text[i];
    const int length = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
    if (length == 0 || i + length > text.size()) return false;
    for (int k = 1; k < length; ++k)
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return false;
    i += length;
  }
  return true;
}

std::string content(const std::filesystem::path& file) {
  std::error_code error;
  if (has_control_character(file.string()))
    throw ScenarioError(quoted(file.string()) + ": has a line break or another control character in its name; rename the file");
  if (!std::filesystem::exists(file, error)) throw ScenarioError(file.string() + ": there is no such file; check the path");
  if (std::filesystem::is_directory(file, error)) throw ScenarioError(file.string() + ": is a folder; name a .yaml file");
  if (!std::filesystem::is_regular_file(file, error))
    throw ScenarioError(file.string() + ": is a device or a pipe; name a .yaml file");
  if (std::filesystem::file_size(file, error) > largest)
    throw ScenarioError(file.string() + ": has more than 16 MiB, so it is no scenario; name a .yaml file");
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

YamlNode read_yaml(const std::filesystem::path& file) { return parse_yaml(content(file), file.string()); }

YamlNode parse_yaml(std::string text, const std::string& name) {
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);  // how some editors say that it is UTF-8
  const auto refuse_at = [&](std::size_t bad, const char* what) {
    const auto line = 1 + std::count(text.begin(), text.begin() + std::ptrdiff_t(bad), '\n');
    throw ScenarioError(name + ":" + std::to_string(line) + what);
  };
  std::size_t bad = 0;
  if (!is_utf8(text, bad)) refuse_at(bad, ": is not UTF-8 text; save the file as UTF-8");
  if ((bad = text.find('\0')) != std::string::npos) refuse_at(bad, ": has a NUL, so it is not text; save the file as UTF-8");
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.empty() || (documents.size() == 1 && documents[0].IsNull()))
      throw ScenarioError(name + ":1: is empty; a scenario is a YAML map, see scenarios/four_schemes.yaml");
    if (documents.size() > 1)
      throw ScenarioError(name + ":" + std::to_string(documents[1].Mark().line + 1) +
                          ": a second YAML document begins here; a scenario file holds one");
    YamlNode root = Conversion(name, text).convert(documents[0], "", "", 0);
    if (root.kind != YamlNode::Kind::map) refuse(root, "a scenario is a map of keys and values; this is " + in_words(root));
    return root;
  } catch (const YAML::DeepRecursion&) {
    throw ScenarioError(name + ":1: is nested too deeply to be a scenario; are brackets missing their ends?");
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
    const std::string value = assignment.substr(equals + 1);
    *node = Conversion("", value).convert(YAML::Load(value), names.back(), key, 0);
  } catch (const YAML::Exception& error) {
    throw ScenarioError("--set " + key + ": " + quoted(assignment.substr(equals + 1)) + " is not YAML: " + error.msg);
  }
}

}  // namespace shardsim
