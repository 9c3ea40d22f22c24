// Fingerprint: 64 bits that tell texts and files apart.
#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace shardsim {

/// FNV-1a over texts, each with its end: "ab", "c" is another one than "a", "bc".
class Fingerprint {
 public:
  void add(const std::string& text) {
    for (const char c : text) take(static_cast<unsigned char>(c));
    take(0);
  }
  std::uint64_t value() const { return value_; }

 private:
  void take(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3u; }
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

/// Of what is in a file; of one that cannot be read, that of an empty one.
inline std::uint64_t fingerprint_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  Fingerprint print;
  print.add(stream ? std::string(std::istreambuf_iterator<char>(stream), {}) : std::string());
  return print.value();
}

}  // namespace shardsim
