// Pool: CUDA's calls.
#include "backends/cuda/pool.h"

#include <string>

#include "backends/cuda/checked.h"

namespace shardsim::cuda {

Pool::Pool(int gpu) {
  cudaMemPoolProps props{};
  props.allocType = cudaMemAllocationTypePinned;
  props.location.type = cudaMemLocationTypeDevice;
  props.location.id = gpu;
  ensure(cudaMemPoolCreate(&pool_, &props), "a memory pool could not be made");
  std::uint64_t all = UINT64_MAX;  // nothing goes back to the card at a synchronization
  ensure(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &all), "a memory pool's threshold");
}

Pool::~Pool() {
  if (pool_) (void)cudaMemPoolDestroy(pool_);
}

void* Pool::take(std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return nullptr;
  void* at = nullptr;
  cudaError_t answer = cudaMallocFromPoolAsync(&at, bytes, pool_, stream);
  if (answer == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    ++retries_;
    ensure(cudaDeviceSynchronize(), "waiting for memory that is being freed");
    ensure(cudaMemPoolTrimTo(pool_, 0), "giving back cached memory");
    answer = cudaMallocFromPoolAsync(&at, bytes, pool_, stream);
  }
  if (answer == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    throw OutOfMemory("the GPU has no room for " + std::to_string(bytes) + " bytes beside the " + std::to_string(used()) +
                      " that this rank holds; a smaller micro-batch, a smaller world or a scheme that shards more needs less");
  }
  ensure(answer, "memory could not be allocated");
  return at;
}

void Pool::give_back(void* at, cudaStream_t stream) {
  if (at) ensure(cudaFreeAsync(at, stream), "memory could not be freed");
}

std::int64_t Pool::attribute(cudaMemPoolAttr which) const {
  std::uint64_t value = 0;
  ensure(cudaMemPoolGetAttribute(pool_, which, &value), "a memory pool's books");
  return std::int64_t(value);
}

}  // namespace shardsim::cuda
