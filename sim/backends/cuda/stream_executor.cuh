// StreamExecutor: carries out an op's kernels on one CUDA stream.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>

#include "backends/cuda/checked.h"
#include "backends/cuda/stream.h"
#include "backends/cuda/ops.h"

namespace shardsim::cuda {

/// The threads that share a row: a block, or a warp of it where rows are short. Sums go by halves within a warp, then from the
/// first warp to the last: one order always.
class CardTeam {
 public:
  static constexpr int block = 256, warp = 32;
  SHARDSIM_BOTH explicit CardTeam(int size) : size_(size) {}
  SHARDSIM_BOTH std::int64_t lane() const {
#ifdef __CUDA_ARCH__
    return threadIdx.x % unsigned(size_);
#else
    return 0;
#endif
  }
  SHARDSIM_BOTH std::int64_t size() const { return size_; }
  SHARDSIM_BOTH void sync() const {
#ifdef __CUDA_ARCH__
    if (size_ == warp) __syncwarp();
    else __syncthreads();
#endif
  }
  template <class T>
  SHARDSIM_BOTH T sum(T x) const {
    return joined(x, [](T a, T b) { return a + b; });
  }
  SHARDSIM_BOTH float max(float x) const {
    return joined(x, [](float a, float b) { return b > a ? b : a; });
  }

 private:
  template <class T, class Join>
  SHARDSIM_BOTH T joined(T x, [[maybe_unused]] Join join) const {
#ifdef __CUDA_ARCH__
    __shared__ T of_warps[block / warp];
    for (int away = warp / 2; away > 0; away /= 2) x = join(x, __shfl_xor_sync(0xffffffffu, x, away));
    if (size_ == warp) return x;
    __syncthreads();  // nobody reads the last result any more
    if (threadIdx.x % warp == 0) of_warps[threadIdx.x / warp] = x;
    __syncthreads();
    x = of_warps[0];
    for (int i = 1; i < block / warp; ++i) x = join(x, of_warps[i]);
#endif
    return x;
  }
  int size_;
};

template <class F>
__global__ void __launch_bounds__(CardTeam::block) each_kernel(std::int64_t n, F f) {
  const std::int64_t all = std::int64_t(gridDim.x) * CardTeam::block;
  for (std::int64_t i = std::int64_t(blockIdx.x) * CardTeam::block + threadIdx.x; i < n; i += all) f(i);
}
template <class F>
__global__ void __launch_bounds__(CardTeam::block) rows_kernel(std::int64_t n, int size, F f) {
  const int teams = CardTeam::block / size;
  for (std::int64_t row = std::int64_t(blockIdx.x) * teams + threadIdx.x / unsigned(size); row < n;
       row += std::int64_t(gridDim.x) * teams)
    f(CardTeam(size), row);
}

class StreamExecutor {
 public:
  using Team = CardTeam;
  explicit StreamExecutor(Stream& stream) : stream_(stream) {}
  ~StreamExecutor() { stream_.release_scratch(); }
  StreamExecutor(const StreamExecutor&) = delete;
  StreamExecutor& operator=(const StreamExecutor&) = delete;

  template <class F>
  void each(std::int64_t n, F f) {
    if (n == 0) return;
    each_kernel<<<blocks((n + Team::block - 1) / Team::block), Team::block, 0, stream_.handle>>>(n, f);
    ensure(cudaGetLastError(), "a kernel could not be launched");
  }
  /// A row that keeps a warp busy for a few packs each is a warp's.
  template <class F>
  void rows(std::int64_t n, std::int64_t length, F f) {
    if (n == 0) return;
    const int size = length <= 8 * Team::warp * Pack::size ? Team::warp : Team::block, teams = Team::block / size;
    rows_kernel<<<blocks((n + teams - 1) / teams), Team::block, 0, stream_.handle>>>(n, size, f);
    ensure(cudaGetLastError(), "a kernel could not be launched");
  }
  void copy(const Numbers& from, const Numbers& to, std::int64_t n) {
    if (n == 0 || from.at == to.at) return;
    ensure(cudaMemcpyAsync(to.at, from.at, std::size_t(n * bytes_of(to.type)), cudaMemcpyDefault, stream_.handle), "a copy");
  }
  void product(const Product& product) { stream_.product(product); }
  Numbers scratch(std::int64_t n, Dtype type) { return {stream_.scratch(std::size_t(n * bytes_of(type))), type, n}; }
  /// A constant, not the card's number of cores: sums have one order on every card.
  std::int64_t parallel() const { return 1 << 17; }

 private:
  static unsigned blocks(std::int64_t n) { return unsigned(std::min<std::int64_t>(n, 1 << 20)); }
  Stream& stream_;
};

}  // namespace shardsim::cuda
