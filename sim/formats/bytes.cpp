// Reading a file whole.
#include "formats/bytes.h"

#include <fstream>
#include <sstream>

#include "core/error.h"

namespace shardsim::formats {

std::string read_bytes(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) throw ScenarioError(file.string() + ": there is no such file");
  if (std::filesystem::is_directory(file, error)) throw ScenarioError(file.string() + ": is a folder; name a file");
  if (!std::filesystem::is_regular_file(file, error)) throw ScenarioError(file.string() + ": is a device or a pipe; name a file");
  std::ifstream in(file, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  std::string text = bytes.str();
  if (!in && text.size() > 0) throw ScenarioError(file.string() + ": cannot be read");
  if (text.size() < 2)
    throw ScenarioError(file.string() + ": has " + std::to_string(text.size()) + " bytes; a text has at least 2");
  return text;
}

}  // namespace shardsim::formats
