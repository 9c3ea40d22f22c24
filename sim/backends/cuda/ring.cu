// The kernels of loopback collectives, compiled for the card.
#include "backends/cuda/ring.h"

#include "backends/cuda/run_op.h"
#include "backends/cuda/stream_executor.cuh"

namespace shardsim::cuda {

void move_in_ring_order(Stream& stream, std::span<const Collective> members, bool poisons) {
  StreamExecutor on(stream);
  move_in_ring_order(on, members, poisons);
}

}  // namespace shardsim::cuda
