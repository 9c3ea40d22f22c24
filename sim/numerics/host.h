// Host arithmetic: what each op computes, on host memory. Numbers are stored as floats whatever their type; a bf16 tensor holds
// floats that are rounded to bf16. The same bits on every backend that uses it.
#pragma once
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
float to_bf16(float);
inline float rounded(Dtype type, float x) { return type == Dtype::fp32 ? x : to_bf16(x); }

/// Storage for `count` real floats, 64-byte aligned and filled with NaN; null for none.
void* allocate(Dim count);
void release(void*);

/// What Device::upload and Device::download copy.
std::vector<float> staged(const Tensor& to, HostView from);
void copy_in(const Tensor& to, const std::vector<float>& staged);
void copy_out(const Tensor& from, std::vector<float>& to);

}  // namespace shardsim::numerics
