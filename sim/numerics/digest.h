// Digest: 64-bit FNV-1a over bytes, which tells texts, files and tensors apart.
#pragma once
#include <cstdint>

namespace shardsim::numerics {

class Digest {
 public:
  void take(std::uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001b3u; }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

}  // namespace shardsim::numerics
