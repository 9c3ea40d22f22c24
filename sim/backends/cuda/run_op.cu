// run: an op's kernels, enqueued on a stream.
#include "backends/cuda/run_op.h"

#include "backends/cuda/stream_executor.cuh"

namespace shardsim::cuda {

void run(Stream& stream, const Op& op) {
  StreamExecutor on(stream);
  std::visit([&](const auto& o) { perform(on, o); }, op);
}

}  // namespace shardsim::cuda
