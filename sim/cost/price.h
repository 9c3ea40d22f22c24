// Price: the seconds that an op takes on a GPU.
#pragma once
#include <string>

#include "core/op.h"
#include "cost/gpu.h"

namespace shardsim::cost {

/// Matrix product: kernel + 2 m n k / (peak x gemm_efficiency) + output / (bandwidth x memory_efficiency): the output's write is
/// not hidden. All else: kernel + bytes read and written / (bandwidth x memory_efficiency). Nothing charged: 0.
double seconds(const Gpu&, const Op&);
/// The formula with the numbers in it.
std::string in_words(const Gpu&, const Op&);
/// Floating-point operations of a matrix product; 0 for others.
double flops(const Op&);

}  // namespace shardsim::cost
