// Dim: one size, twice: what time and memory are billed for (charged), and what the arithmetic really has (real).
#pragma once
#include <cstdint>
#include <utility>

namespace shardsim {

/// `numerics: full` makes the two equal, `off` makes real zero, a twin has real < charged. Only numerics and storage may read
/// the real size (through numerics/real.h); no launch, branch, wait or collective can depend on it.
class Dim {
 public:
  constexpr Dim() = default;
  constexpr Dim(std::int64_t charged, std::int64_t real) : charged_(charged), real_(real) {}

  constexpr std::int64_t charged() const { return charged_; }
  /// Rounded up to a multiple of n: every slice of n equal ones exists.
  constexpr Dim padded_to(std::int64_t n) const { return {(charged_ + n - 1) / n * n, (real_ + n - 1) / n * n}; }
  /// One of n equal slices; the Dim has to be padded to n.
  constexpr Dim over(std::int64_t n) const { return {charged_ / n, real_ / n}; }
  /// The first c of n parts that are as equal as whole elements allow: floor(c/n of it), of each size by itself.
  constexpr Dim share(std::int64_t c, std::int64_t n) const { return {charged_ * c / n, real_ * c / n}; }
  /// Its first `charged` elements and their image among the real ones, floor(charged * real / all charged): monotone, 0 at the
  /// beginning, all at the end.
  constexpr Dim part(std::int64_t charged) const {
    __extension__ using Wide = __int128;  // the product of two sizes of 1e10 does not fit 64 bits
    return {charged, charged_ == 0 ? 0 : std::int64_t(Wide(real_) * charged / charged_)};
  }

  /// The part of [begin, begin + count) that lies in [other_begin, other_begin + other_count), as {begin, count}; may be empty.
  friend constexpr std::pair<Dim, Dim> overlap(Dim begin, Dim count, Dim other_begin, Dim other_count) {
    auto from = [](std::int64_t a, std::int64_t b) { return a > b ? a : b; };
    auto size = [](std::int64_t low, std::int64_t a, std::int64_t b) {
      return a < b ? (a > low ? a - low : 0) : (b > low ? b - low : 0);
    };
    const Dim low(from(begin.charged_, other_begin.charged_), from(begin.real_, other_begin.real_));
    const Dim end = begin + count, other_end = other_begin + other_count;
    return {low, Dim(size(low.charged_, end.charged_, other_end.charged_), size(low.real_, end.real_, other_end.real_))};
  }

  friend constexpr Dim operator+(Dim a, Dim b) { return {a.charged_ + b.charged_, a.real_ + b.real_}; }
  friend constexpr Dim operator-(Dim a, Dim b) { return {a.charged_ - b.charged_, a.real_ - b.real_}; }
  friend constexpr Dim operator*(Dim a, Dim b) { return {a.charged_ * b.charged_, a.real_ * b.real_}; }
  friend constexpr Dim operator*(std::int64_t k, Dim a) { return {k * a.charged_, k * a.real_}; }
  friend constexpr bool operator==(Dim, Dim) = default;

 private:
  friend struct Real;  // sim/numerics/real.h
  std::int64_t charged_ = 0, real_ = 0;
};

inline constexpr Dim one{1, 1};
inline constexpr Dim none{0, 0};

}  // namespace shardsim
