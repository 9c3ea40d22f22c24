// Jitter: by how much a node is slower than its best in a step. The same for every scheme: it hangs on seed, node and step only.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/draw.h"

namespace shardsim::simgrid_backend {

/// A node's draws: exponentially distributed with mean 1, so that the slowest of n nodes has about ln n + 0.58 of them.
class Jitter {
 public:
  Jitter() = default;
  Jitter(std::uint64_t seed, std::string_view node) { add(seed, node); }
  /// Of ranks in several nodes that are simulated as one, the slowest counts.
  void add(std::uint64_t seed, std::string_view node) {
    std::uint64_t key = drawn(seed);
    for (const char c : node) key = drawn(key ^ std::uint64_t((unsigned char)c));
    if (std::find(keys_.begin(), keys_.end(), key) == keys_.end()) keys_.push_back(key);
  }
  double of(int step) const {
    std::uint64_t least = ~std::uint64_t(0);
    for (const std::uint64_t key : keys_) least = std::min(least, drawn(key ^ drawn(std::uint64_t(step))) >> 11);
    return keys_.empty() ? 0 : -std::log((double(least) + 0.5) * 0x1p-53);  // never log(0)
  }

 private:
  std::vector<std::uint64_t> keys_;  // of nodes
};

}  // namespace shardsim::simgrid_backend
