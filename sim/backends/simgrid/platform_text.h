// PlatformText: a platform file as XML whose elements know their lines, read before SimGrid reads it.
#pragma once
#include <filesystem>
#include <functional>
#include <pugixml.hpp>
#include <string>

namespace shardsim::simgrid_backend {

class PlatformText {
 public:
  /// Throws ScenarioError: a file that cannot be read, that is no XML, or that has no zone.
  explicit PlatformText(const std::filesystem::path&);
  PlatformText(const PlatformText&) = delete;

  const std::string& text() const { return text_; }
  /// The first <zone> or <cluster> in <platform>.
  pugi::xml_node zone() const { return zone_; }
  /// Each element of the file, in its order.
  void visit(const std::function<void(pugi::xml_node)>&) const;

  /// "file.xml:12: host 'gpu0'", by the line of the element and the name of the one that has one.
  std::string place_of(pugi::xml_node) const;
  /// The same by the names that SimGrid gives; without a line for those that no element is found for.
  std::string place_of_host(const std::string& name) const;
  std::string place_of_link(const std::string& name) const;
  /// Throws ScenarioError: "file.xml:12: host 'gpu0': what".
  [[noreturn]] void refuse(pugi::xml_node, const std::string& what) const;
  int line_of(pugi::xml_node) const;

 private:
  std::string where(pugi::xml_node) const;
  std::string place_of(const char* kind, const std::string& name, const std::function<bool(pugi::xml_node)>& is_it) const;

  std::string file_, text_;
  pugi::xml_document document_;
  pugi::xml_node zone_;
};

bool is_zone(pugi::xml_node);

}  // namespace shardsim::simgrid_backend
