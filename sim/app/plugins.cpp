// Plugins: dlopen, and what is checked before a library's scheme is used.
#include "app/plugins.h"

#include <dlfcn.h>
#include <elf.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string_view>

#include "core/plugin.h"

namespace shardsim {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view own_interface = SHARDSIM_INTERFACE;
constexpr std::string_view interface_mark = own_interface.substr(0, own_interface.rfind('-') + 1);

[[noreturn]] void refuse(const std::string& file, const std::string& why) { throw ScenarioError(file + ": " + why); }

void check_interface(const std::string& file, std::string_view interface) {
  if (interface == own_interface) return;
  refuse(file, "was built for " + std::string(interface) + ", and this program has " + std::string(own_interface) +
                   "; build the plugin again, with this program's package");
}

/// True for a library that was not copied to its end. The loader would not notice, and die of it. The section headers stand last.
bool is_cut_short(std::string_view bytes) {
  if (!bytes.starts_with(ELFMAG)) return false;
  Elf64_Ehdr header{};
  if (bytes.size() < sizeof header) return true;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header.e_shoff + std::size_t(header.e_shnum) * header.e_shentsize > bytes.size();
}

/// Reads the interface out of the file's bytes. Of a library that was built against other headers nothing may run, not even its
/// initializers; and where a function is gone, the loader would name that function and not the versions.
void check_before_loading(const std::string& file) {
  std::error_code error;
  if (!fs::exists(file, error)) refuse(file, "there is no such file");
  if (!fs::is_regular_file(file, error)) refuse(file, "is not a file");
  std::ifstream stream(file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(stream)), {});
  if (!stream || bytes.empty()) refuse(file, "is empty or cannot be read");
  if (is_cut_short(bytes)) refuse(file, "is not a library that can be loaded: its end is missing");
  if (const std::size_t at = bytes.find(interface_mark); at != std::string::npos)
    check_interface(file, std::string_view(bytes).substr(at, own_interface.size()));
}

void* load(const std::string& file) {
  const std::string path = fs::absolute(file).string();
  if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  std::string why = dlerror();
  if (why.starts_with(path + ": ")) why.erase(0, path.size() + 2);
  refuse(file, "is not a library that can be loaded: " + why);
}

const SchemePlugin& plugin_in(const std::string& file) {
  check_before_loading(file);
  void* function = dlsym(load(file), "shardsim_scheme_plugin");
  if (!function) refuse(file, "is not a plugin, it has no function shardsim_scheme_plugin; see shardsim_add_scheme(... MODULE)");
  const SchemePlugin* plugin = reinterpret_cast<decltype(&shardsim_scheme_plugin)>(function)();
  if (!plugin || !plugin->interface) refuse(file, "is not a plugin, its shardsim_scheme_plugin() returns nothing");
  check_interface(file, plugin->interface);
  return *plugin;
}

/// Results lie in a folder of the scheme's name.
bool is_name(std::string_view text) {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; };
  return !text.empty() && std::all_of(text.begin(), text.end(), fits);
}

/// Once before the run, so that a constructor that throws is told apart from a step that does.
void try_to_construct(const std::string& file, const SchemePlugin& plugin) {
  const std::string what = file + ": scheme '" + plugin.name + "' cannot be constructed: ";
  try {
    const std::unique_ptr<Scheme> scheme = plugin.make(Options(plugin.options()));
    if (!scheme) throw IllegalStep("it makes nothing");
    scheme->shard();
  } catch (const std::exception& error) {
    throw IllegalStep(what + "an exception came out of it: " + error.what());
  } catch (...) {
    throw IllegalStep(what + "something came out of it that is no std::exception");
  }
}

}  // namespace

void load_plugins(const std::vector<std::string>& files, Registry& registry) {
  std::map<std::string, std::string> loaded;  // name -> file
  for (const std::string& file : files) {
    const SchemePlugin& plugin = plugin_in(file);
    const std::string name = plugin.name;
    if (!is_name(name)) refuse(file, "its scheme is called '" + name + "'; a name has letters, digits and _ only");
    if (registry.find(name))
      refuse(file, "two schemes are called '" + name + "', the other is " +
                       (loaded.count(name) ? "in " + loaded[name] : "built in") + "; rename one");
    try_to_construct(file, plugin);
    registry.add({name, plugin.summary, plugin.source, plugin.make, plugin.options()});
    loaded[name] = file;
  }
}

}  // namespace shardsim
