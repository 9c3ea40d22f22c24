// The kernels of attention's heads, compiled for the card.
#include "backends/cuda/heads.h"

#include "backends/cuda/stream_executor.cuh"

namespace shardsim::cuda {

template void perform(StreamExecutor&, const Rotate&);
template void perform(StreamExecutor&, const SplitHeads&);
template void perform(StreamExecutor&, const SplitHeadsBackward&);
template void perform(StreamExecutor&, const MergeHeads&);
template void perform(StreamExecutor&, const CausalMask&);

}  // namespace shardsim::cuda
