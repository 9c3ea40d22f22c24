// The kernels of biases and embeddings, compiled for the card.
#include "backends/cuda/rows.h"

#include "backends/cuda/stream_executor.cuh"

namespace shardsim::cuda {

template void perform(StreamExecutor&, const AddBias&);
template void perform(StreamExecutor&, const SumRows&);
template void perform(StreamExecutor&, const Embed&);
template void perform(StreamExecutor&, const EmbedBackward&);

}  // namespace shardsim::cuda
