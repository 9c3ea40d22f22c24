// A file that is written as a whole: a temporary name, then a rename.
#include "app/whole_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "core/error.h"

namespace shardsim {

void write_whole_file(const std::filesystem::path& file, const std::string& text) {
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
