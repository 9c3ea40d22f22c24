// The kernels of the update, compiled for the card.
#include "backends/cuda/updates.h"

#include "backends/cuda/stream_executor.cuh"

namespace shardsim::cuda {

template void perform(StreamExecutor&, const SumSquares&);
template void perform(StreamExecutor&, const ClipFactor&);
template void perform(StreamExecutor&, const Adam&);

}  // namespace shardsim::cuda
