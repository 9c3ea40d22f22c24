// Random: numbers by position, the same on any machine. No state, so nothing depends on who asked before.
#pragma once
#include <cstdint>

#include "core/draw.h"

namespace shardsim {

/// What the numbers are for: no two uses share a row.
enum class Purpose : std::uint64_t {
  theta_of_student = 1,
  theta_of_teacher,
  inputs,
  theta_of_transformer,
  seats,
  sentences,
  masks
};

/// splitmix64 of (seed, purpose, index): one row of numbers per seed and purpose.
class Random {
 public:
  Random(std::uint64_t seed, Purpose purpose) : key_(drawn(seed ^ drawn(std::uint64_t(purpose)))) {}
  /// 64 random bits.
  std::uint64_t bits(std::uint64_t index) const { return drawn(key_, index); }
  /// Uniform in [-1, 1), a multiple of 2^-23.
  float symmetric(std::uint64_t index) const { return float(std::int64_t(bits(index) >> 40) - (1 << 23)) / float(1 << 23); }
  /// Uniform in 0 ... count - 1 (count up to 2^32).
  std::uint64_t below(std::uint64_t count, std::uint64_t index) const { return (bits(index) >> 32) * count >> 32; }

 private:
  std::uint64_t key_;
};

}  // namespace shardsim
