// Pool: a rank's memory on its GPU, handed out and taken back in stream order, with its high-water marks.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace shardsim::cuda {

/// CUDA's stream-ordered allocator, in a pool of our own that keeps what it was given until the end.
class Pool {
 public:
  explicit Pool(int gpu);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Null for 0 bytes. When the card is full the pool gives back what it keeps, and tries once more; then throws OutOfMemory.
  void* take(std::size_t bytes, cudaStream_t);
  void give_back(void*, cudaStream_t);

  std::int64_t used_peak() const { return attribute(cudaMemPoolAttrUsedMemHigh); }          ///< handed out, rounded as CUDA does
  std::int64_t reserved_peak() const { return attribute(cudaMemPoolAttrReservedMemHigh); }  ///< taken from the card
  std::int64_t used() const { return attribute(cudaMemPoolAttrUsedMemCurrent); }
  std::int64_t retries() const { return retries_; }

 private:
  std::int64_t attribute(cudaMemPoolAttr) const;
  cudaMemPool_t pool_ = nullptr;
  std::int64_t retries_ = 0;
};

}  // namespace shardsim::cuda
