// Host arithmetic: what each op computes, on host memory. Numbers are stored as floats whatever their type; a bf16 tensor holds
// floats that are rounded to bf16. The same bits on every backend that uses it.
#pragma once
#include <bit>
#include <cstdint>
#include <vector>

#include "core/device.h"
#include "core/op.h"

namespace shardsim::numerics {

/// Fixes what Eigen would otherwise take from the machine (cache sizes decide the order of sums). Call once before any arithmetic.
void fix_blocking();

void run(const Op&);

/// The real floats of a tensor.
float* data(const Tensor&);
/// Nearest bf16, ties to even, as a float; NaN stays NaN.
inline float to_bf16(float x) {  // without a branch, so that loops over it become vector code
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t nearest = (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
  const std::uint32_t quiet = (bits & 0xffff0000u) | 0x00400000u;  // of a NaN: the sum above could carry it into infinity
  return std::bit_cast<float>(x != x ? quiet : nearest);
}
inline float rounded(Dtype type, float x) { return type == Dtype::fp32 ? x : to_bf16(x); }

/// Storage for `count` real floats, 64-byte aligned and filled with NaN; null for none.
void* allocate(Dim count);
void release(void*);

/// What Device::upload and Device::download copy.
std::vector<float> staged(const Tensor& to, HostView from);
void copy_in(const Tensor& to, const std::vector<float>& staged);
void copy_out(const Tensor& from, std::vector<float>& to);

}  // namespace shardsim::numerics
