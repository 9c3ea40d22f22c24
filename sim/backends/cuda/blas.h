// Blas: matrix products by cuBLASLt, in fp32 sums and without TF32; one algorithm for one shape, always.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <memory>

#include "backends/cuda/executor.h"

namespace shardsim::cuda {

class Blas {
 public:
  static constexpr std::size_t workspace_bytes = std::size_t(32) << 20;
  Blas();
  ~Blas();
  /// Enqueues the product. Throws GpuError naming the shape if cuBLASLt has nothing for it.
  void product(const Product&, void* workspace, cudaStream_t);

 private:
  struct Loaded;
  std::unique_ptr<Loaded> loaded_;  // at the first product
};

}  // namespace shardsim::cuda
