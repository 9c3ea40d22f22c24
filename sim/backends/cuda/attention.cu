// The kernels of attention, compiled for the card.
#include "backends/cuda/attention.h"

#include "backends/cuda/stream_executor.cuh"

namespace shardsim::cuda {

template void perform(StreamExecutor&, const Attention&);
template void perform(StreamExecutor&, const AttentionBackward&);

}  // namespace shardsim::cuda
