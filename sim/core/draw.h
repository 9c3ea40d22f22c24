// Draws: random numbers by position, the same on any machine and backend. No state, so nothing depends on who asked before.
#pragma once
#include <cstdint>

namespace shardsim {

/// splitmix64: `index` numbers further in the row that begins at `key`.
constexpr std::uint64_t drawn(std::uint64_t key, std::uint64_t index = 0) {
  constexpr std::uint64_t step = 0x9e3779b97f4a7c15u;
  std::uint64_t x = key + (index + 1) * step;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/// One number of two; their order counts.
constexpr std::uint64_t mixed(std::uint64_t a, std::uint64_t b) { return drawn(b, a); }

/// Whether a dropout with this key drops the element at `index`; `share` of all elements are.
constexpr bool is_dropped(std::uint64_t key, std::uint64_t index, double share) {
  return double(drawn(key, index) >> 40) < share * double(1 << 24);
}

}  // namespace shardsim
