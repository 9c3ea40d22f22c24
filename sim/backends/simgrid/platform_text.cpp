// PlatformText: the file is read once; lines are counted when a message needs them.
#include "backends/simgrid/platform_text.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>

#include "core/error.h"

namespace shardsim::simgrid_backend {
namespace {

struct Visitor : pugi::xml_tree_walker {
  const std::function<void(pugi::xml_node)>& visit;
  explicit Visitor(const std::function<void(pugi::xml_node)>& each) : visit(each) {}
  bool for_each(pugi::xml_node& node) override {
    if (node.type() == pugi::node_element) visit(node);
    return true;
  }
};

std::string read_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) throw ScenarioError(file.string() + ": cannot read the platform file");
  return text.str();
}

/// A name in one line.
std::string quoted(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::iscntrl(c) != 0; }, ' ');
  return "'" + name + "'";
}

int line_at(const std::string& text, std::ptrdiff_t offset) {
  return 1 + int(std::count(text.begin(), text.begin() + std::clamp<std::ptrdiff_t>(offset, 0, text.size()), '\n'));
}

/// Of a machine that a scenario says in numbers nobody can look up a line.
bool has_lines(const std::string& file) { return !file.starts_with("/proc/self/fd/"); }

}  // namespace

bool is_zone(pugi::xml_node node) {
  const std::string kind = node.name();
  return kind == "zone" || kind == "AS" || kind == "cluster";
}

PlatformText::PlatformText(const std::filesystem::path& file) : file_(file.string()), text_(read_text(file)) {
  // As bytes, whatever encoding the file says: places in the document are places in the text.
  const auto parsed = document_.load_buffer(text_.data(), text_.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!parsed)
    throw ScenarioError(file_ + ":" + std::to_string(line_at(text_, parsed.offset)) +
                        ": not well-formed XML: " + parsed.description());
  zone_ = document_.child("platform").find_child(is_zone);
  if (!zone_ || text_.rfind("</platform") == std::string::npos)
    throw ScenarioError(file_ + ": no <platform> with a <zone> or <cluster> in it; see platforms/ for examples");
}

void PlatformText::visit(const std::function<void(pugi::xml_node)>& each) const {
  Visitor visitor(each);
  pugi::xml_node(document_).traverse(visitor);
}

int PlatformText::line_of(pugi::xml_node node) const { return line_at(text_, node.offset_debug()); }

std::string PlatformText::where(pugi::xml_node node) const {
  return file_ + (node && has_lines(file_) ? ":" + std::to_string(line_of(node)) : "") + ": ";
}

std::string PlatformText::place_of(pugi::xml_node node) const {
  const pugi::xml_node subject = std::string(node.name()) == "prop" ? node.parent() : node;
  const pugi::xml_attribute id = subject.attribute("id");
  return where(node) + (id ? subject.name() + (" " + quoted(id.value())) : "<" + std::string(subject.name()) + ">");
}

std::string PlatformText::place_of(const char* kind, const std::string& name,
                                   const std::function<bool(pugi::xml_node)>& is_it) const {
  return where(document_.find_node(is_it)) + kind + " " + quoted(name);
}

std::string PlatformText::place_of_host(const std::string& name) const {
  return place_of("host", name, [&](pugi::xml_node node) {
    const std::string kind = node.name(), prefix = node.attribute("prefix").value(), suffix = node.attribute("suffix").value();
    if (kind == "host") return name == node.attribute("id").value();
    if (kind != "cluster" || name.size() <= prefix.size() + suffix.size()) return false;
    const std::string number = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
    return name.starts_with(prefix) && name.ends_with(suffix) && number.find_first_not_of("0123456789") == std::string::npos;
  });
}

std::string PlatformText::place_of_link(const std::string& name) const {
  std::string cable = name;  // with both its ways, where it has two
  for (const char* way : {"_UP", "_DOWN"})
    if (cable.ends_with(way)) cable.resize(cable.size() - std::string(way).size());
  return place_of("link", name, [&](pugi::xml_node node) {
    const std::string kind = node.name(), id = node.attribute("id").value();
    if (kind == "cluster") return cable.starts_with(id + "_link_") || cable == id + "_backbone";
    return (kind == "link" || kind == "backbone") && (id == name || id == cable);
  });
}

void PlatformText::refuse(pugi::xml_node node, const std::string& what) const { throw ScenarioError(place_of(node) + ": " + what); }

}  // namespace shardsim::simgrid_backend
