// Fingerprint: 64 bits that tell texts and files apart.
#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "numerics/digest.h"

namespace shardsim {

/// A digest over texts, each with its end: "ab", "c" is another one than "a", "bc".
class Fingerprint {
 public:
  void add(const std::string& text) {
    for (const char c : text) digest_.take(std::uint8_t(c));
    digest_.take(0);
  }
  std::uint64_t value() const { return digest_.value(); }

 private:
  numerics::Digest digest_;
};

/// Of what is in a file; of one that cannot be read, that of an empty one.
inline std::uint64_t fingerprint_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  Fingerprint print;
  print.add(stream ? std::string(std::istreambuf_iterator<char>(stream), {}) : std::string());
  return print.value();
}

}  // namespace shardsim
