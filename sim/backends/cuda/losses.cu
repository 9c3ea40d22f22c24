// The kernels of losses, compiled for the card.
#include "backends/cuda/losses.h"

#include "backends/cuda/stream_executor.cuh"

namespace shardsim::cuda {

template void perform(StreamExecutor&, const MseLoss&);
template void perform(StreamExecutor&, const CrossEntropy&);
template void perform(StreamExecutor&, const NllLoss&);

}  // namespace shardsim::cuda
