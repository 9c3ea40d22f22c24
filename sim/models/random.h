// Random: numbers by position, the same on any machine. No state, so nothing depends on who asked before.
#pragma once
#include <cstdint>

namespace shardsim {

/// What the numbers are for: no two uses share a row.
enum class Purpose : std::uint64_t { theta_of_student = 1, theta_of_teacher, inputs, theta_of_transformer, seats, sentences };

/// splitmix64 of (seed, purpose, index): one row of numbers per seed and purpose.
class Random {
 public:
  Random(std::uint64_t seed, Purpose purpose) : key_(mix(seed ^ mix(std::uint64_t(purpose)))) {}
  /// 64 random bits.
  std::uint64_t bits(std::uint64_t index) const { return mix(key_ + index * step); }
  /// Uniform in [-1, 1), a multiple of 2^-23.
  float symmetric(std::uint64_t index) const { return float(std::int64_t(bits(index) >> 40) - (1 << 23)) / float(1 << 23); }
  /// Uniform in 0 ... count - 1 (count up to 2^32).
  std::uint64_t below(std::uint64_t count, std::uint64_t index) const { return (bits(index) >> 32) * count >> 32; }

 private:
  static constexpr std::uint64_t step = 0x9e3779b97f4a7c15u;
  static std::uint64_t mix(std::uint64_t x) {
    x += step;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
  }
  std::uint64_t key_;
};

}  // namespace shardsim
