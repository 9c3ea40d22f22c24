// The kernels of LayerNorm and RMSNorm, compiled for the card.
#include "backends/cuda/norms.h"

#include "backends/cuda/stream_executor.cuh"

namespace shardsim::cuda {

template void perform(StreamExecutor&, const Norm&);
template void perform(StreamExecutor&, const NormBackward&);

}  // namespace shardsim::cuda
