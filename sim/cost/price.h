// Price: the seconds that an op takes on a GPU.
#pragma once
#include <cstdint>
#include <string>

#include "core/op.h"
#include "cost/gpu.h"

namespace shardsim::cost {

struct Price {
  double seconds;  ///< on the device
  int kernels;     ///< that the host launches
};

/// All ops: kernels x kernel_seconds, and for what they are made of:
/// - matrix product, m x n from k: 2 m n k q / (peak x gemm_efficiency) + m n kappa bytes / (bandwidth x memory_efficiency). The
///   second term is the output's write, which is not hidden; q is `wave`.
/// - fused attention in 16 bits, where the GPU's attention speed is known: its share of 3.5 F / (R s / (s + s0)) for both passes,
///   with F = 2 b s^2 a h; else F (2.5 F backward) as a matrix product, and its tensors' bytes.
/// - all else: bytes / (bandwidth x memory_efficiency): those of the tensors, or of the software stack (cost/stack.h).
/// - what touches the host's memory alone is the CPU's: its tensors' bytes / host_memory_bandwidth, and no kernel.
/// - what touches both is a copy: kernel_seconds + the host's bytes / host_link_bandwidth.
/// Nothing charged: 0 kernels, 0 s. Throws ScenarioError where a fact of the host is needed and not known.
Price price(const Gpu&, const Op&);
double seconds(const Gpu&, const Op&);
/// The formula with the numbers in it.
std::string in_words(const Gpu&, const Op&);
/// Floating-point operations of matrix products, attention included (causal half); 0 for others.
double flops(const Op&);

/// Wave quantisation of a product whose outputs are `batch` matrices of m x n on this many multiprocessors: how much longer it
/// takes than with all of them busy to the end, for the best of the tiles 128 x 256, 256 x 128, and 128 x 128 at 0.95 of the speed;
/// at most 9 (where the tiles are that few, libraries cut the inner dimension). 1 for 0 multiprocessors.
double wave(std::int64_t m, std::int64_t n, std::int64_t batch, int multiprocessors);

}  // namespace shardsim::cost
