// The kernels of matrix products, compiled for the card.
#include "backends/cuda/products.h"

#include "backends/cuda/stream_executor.cuh"

namespace shardsim::cuda {

template void perform(StreamExecutor&, const Matmul&);
template void perform(StreamExecutor&, const BatchedMatmul&);

}  // namespace shardsim::cuda
