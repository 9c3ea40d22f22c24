// The kernels of 8- and 4-bit numbers, compiled for the card.
#include "backends/cuda/quantize.h"

#include "backends/cuda/stream_executor.cuh"

namespace shardsim::cuda {

template void perform(StreamExecutor&, const Quantize&);
template void perform(StreamExecutor&, const Dequantize&);
template void perform(StreamExecutor&, const SumQuantized&);

}  // namespace shardsim::cuda
