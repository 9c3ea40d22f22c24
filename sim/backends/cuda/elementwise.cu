// The kernels of what is done element by element, compiled for the card.
#include "backends/cuda/elementwise.h"

#include "backends/cuda/stream_executor.cuh"

namespace shardsim::cuda {

template void perform(StreamExecutor&, const Tanh&);
template void perform(StreamExecutor&, const TanhBackward&);
template void perform(StreamExecutor&, const Gelu&);
template void perform(StreamExecutor&, const GeluBackward&);
template void perform(StreamExecutor&, const Silu&);
template void perform(StreamExecutor&, const SiluBackward&);
template void perform(StreamExecutor&, const SwiGlu&);
template void perform(StreamExecutor&, const SwiGluBackward&);
template void perform(StreamExecutor&, const Scale&);
template void perform(StreamExecutor&, const Cube&);
template void perform(StreamExecutor&, const CubeBackward&);
template void perform(StreamExecutor&, const Multiply&);
template void perform(StreamExecutor&, const Dropout&);
template void perform(StreamExecutor&, const DropoutBackward&);
template void perform(StreamExecutor&, const Copy&);
template void perform(StreamExecutor&, const ChunkCopy&);
template void perform(StreamExecutor&, const Add&);
template void perform(StreamExecutor&, const Fill&);

}  // namespace shardsim::cuda
