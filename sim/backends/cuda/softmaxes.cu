// The kernels of softmaxes, compiled for the card.
#include "backends/cuda/softmaxes.h"

#include "backends/cuda/stream_executor.cuh"

namespace shardsim::cuda {

template void perform(StreamExecutor&, const MaskedSoftmax&);
template void perform(StreamExecutor&, const SoftmaxBackward&);
template void perform(StreamExecutor&, const LogSoftmax&);
template void perform(StreamExecutor&, const LogSoftmaxBackward&);

}  // namespace shardsim::cuda
