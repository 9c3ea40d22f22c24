// Jitter: by how much a node is slower than its best in a step. The same for every scheme: it hangs on seed, node and step only.
#pragma once
#include <cmath>
#include <cstdint>
#include <string_view>

namespace shardsim::simgrid_backend {

/// A node's draws: exponentially distributed with mean 1, so that the slowest of n nodes has about ln n + 0.58 of them.
class Jitter {
 public:
  Jitter() = default;
  Jitter(std::uint64_t seed, std::string_view node) : key_(mixed(seed)) {
    for (const char c : node) key_ = mixed(key_ ^ std::uint64_t((unsigned char)c));
  }
  double of(int step) const {
    const std::uint64_t bits = mixed(key_ ^ mixed(std::uint64_t(step)));
    return -std::log((double(bits >> 11) + 0.5) * 0x1p-53);  // never log(0)
  }

 private:
  /// splitmix64 (Steele, Lea, Flood 2014): every bit of x decides about half of the result's.
  static std::uint64_t mixed(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  std::uint64_t key_ = 0;
};

}  // namespace shardsim::simgrid_backend
