// A file that is written as a whole: a temporary name, then a rename.
#include "app/whole_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "core/error.h"

namespace shardsim {

void check_replaceable(const std::filesystem::path& file, const FileKind& kind) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return;
  const auto refuse = [&](const std::string& what) {
    throw ScenarioError(file.string() + ": " + what + "; nothing was touched; name another file");
  };
  if (std::filesystem::is_directory(file, error)) refuse("is a folder");
  if (!std::filesystem::is_regular_file(file, error)) refuse("is a device or a pipe");
  std::string head(4096, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(head.data(), std::streamsize(head.size()));
  head.resize(std::size_t(stream.gcount()));
  if (!head.empty() && head.find(kind.mark) == std::string::npos) refuse(std::string("exists and is no ") + kind.name);
  if (head.empty() && std::filesystem::file_size(file, error) > 0) refuse("exists and cannot be read");
}

void write_whole_file(const std::filesystem::path& file, const FileKind& kind, const std::string& text) {
  check_replaceable(file, kind);
  const std::filesystem::path unfinished = file.string() + "." + std::to_string(::getpid()) + ".unfinished";
  errno = 0;
  std::ofstream out(unfinished, std::ios::binary);
  out << text;
  out.close();
  std::string why = errno ? std::strerror(errno) : "the disk may be full";
  std::error_code error;
  if (out) {
    std::filesystem::rename(unfinished, file, error);
    if (!error) return;
    why = error.message();
  }
  std::filesystem::remove(unfinished, error);
  throw ScenarioError(file.string() + ": cannot be written: " + why);
}

}  // namespace shardsim
