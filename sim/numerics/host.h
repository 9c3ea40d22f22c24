// Host arithmetic: what each op computes, on host memory. Numbers are stored as floats whatever their type; a bf16 tensor holds
// floats that are rounded to bf16, an fp16 tensor floats that are rounded to half precision. The same bits on every backend that
// uses it.
#pragma once
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "core/device.h"
#include "core/op.h"

namespace shardsim::numerics {

/// Fixes what Eigen would otherwise take from the machine (cache sizes decide the order of sums). Call once before any arithmetic.
void fix_blocking();

void run(const Op&);
/// The same arithmetic on storage that holds Scalars: float as above, or double, where no type rounds. For checks of the formulas.
template <class Scalar>
void run_in(const Op&);

/// The real numbers of a tensor.
template <class Scalar = float>
Scalar* data(const Tensor&);
/// Nearest bf16, ties to even, as a float; NaN stays NaN.
inline float to_bf16(float x) {  // without a branch, so that loops over it become vector code
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t nearest = (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
  const std::uint32_t quiet = (bits & 0xffff0000u) | 0x00400000u;  // of a NaN: the sum above could carry it into infinity
  return std::bit_cast<float>(x != x ? quiet : nearest);
}
/// Nearest IEEE half precision, ties to even, as a float: above 65504 it becomes infinite.
inline float to_fp16(float x) { return float(_Float16(x)); }
/// f(round) with the type's rounding as a function object: one branch outside the loop over numbers, none inside.
template <class F>
auto with_rounding(Dtype type, F f) {
  switch (type) {
    case Dtype::bf16:
      return f([](float x) { return to_bf16(x); });
    case Dtype::fp16:
      return f([](float x) { return to_fp16(x); });
    default:  // whole numbers are what they are
      return f([](float x) { return x; });
  }
}
inline float rounded(Dtype type, float x) {
  return with_rounding(type, [x](auto round) { return round(x); });
}

/// Storage for `count` real floats, 64-byte aligned and filled with NaN; null for none.
void* allocate(Dim count);
void release(void*);

/// What Device::upload copies to the beginning of `to`; the rest of it is cleared, so zeros are never staged.
std::span<const float> source(const Tensor& to, HostView from);
/// The same in the type of `to`, for later.
std::vector<float> staged(const Tensor& to, HostView from);
void copy_in(const Tensor& to, const std::vector<float>& staged);
/// What Device::download copies.
void copy_out(const Tensor& from, std::vector<float>& to);

}  // namespace shardsim::numerics
