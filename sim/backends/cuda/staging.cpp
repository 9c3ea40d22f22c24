// Staging: where the pieces lie.
#include "backends/cuda/staging.h"

#include <cuda_runtime.h>

#include "backends/cuda/checked.h"

namespace shardsim::cuda {

Staging::~Staging() {
  if (pinned_) (void)cudaFreeHost(pinned_);
}

Staging::Piece Staging::take(std::size_t bytes) {
  if (!pinned_) ensure(cudaMallocHost(reinterpret_cast<void**>(&pinned_), pinned_bytes), "pinned memory could not be had");
  if (bytes <= pinned_bytes - used_) {
    const Piece piece = pinned_ + used_;
    used_ += (bytes + 63) / 64 * 64;
    if (used_ > pinned_bytes) used_ = pinned_bytes;
    return piece;
  }
  return large_.emplace_back(std::make_unique_for_overwrite<char[]>(bytes)).get();
}

void Staging::clear() {
  used_ = 0;
  large_.clear();
}

}  // namespace shardsim::cuda
