// What a scenario's `memory:` says: which allocator serves a rank, and what a rank holds outside of it.
#pragma once
#include <cstdint>

namespace shardsim::memory {

inline constexpr std::int64_t KiB = 1024, MiB = 1024 * KiB;

/// Options of PyTorch's CUDA caching allocator, by their names in PYTORCH_CUDA_ALLOC_CONF. 0 and false are PyTorch's defaults.
struct AllocatorOptions {
  std::int64_t max_split_size_mb = 0;       ///< blocks from this size (MiB) on are never split; 0: no limit
  int roundup_power2_divisions = 0;         ///< sizes are rounded up to so many steps between powers of two; 0, 1: to 512 bytes
  double garbage_collection_threshold = 0;  ///< cached blocks are given back above this share of the capacity; 0: never
  bool expandable_segments = false;         ///< one growing segment per stream and pool instead of many fixed ones
};

struct Settings {
  bool torch = false;  ///< PyTorch's caching allocator; otherwise exact: the sum of what is asked for
  AllocatorOptions options;
  std::int64_t cublas_workspace = 0;  ///< bytes of each workspace that cuBLAS takes from the caching allocator
  int cublas_workspaces = 0;
  bool has_outside = false;       ///< the two below are known; otherwise they are 0 and not reported
  std::int64_t context = 0;       ///< bytes of the CUDA context: kernels' code, stacks, the driver's own
  std::int64_t communicator = 0;  ///< bytes of each communicator that a rank uses
};

/// Bytes of a communicator whose ring has so many channels: each has a connection to send and one to receive, and each of these
/// buffers for the protocols Simple (4 MiB), LL (0.5 MiB) and LL128 (4.7 MiB). Source: NCCL's buffer sizes (src/include/device.h,
/// NCCL_BUFFSIZE); trees and NVLS add theirs.
constexpr std::int64_t communicator_bytes(std::int64_t channels) { return channels * 2 * 46 * MiB / 5; }

/// As nvidia-smi shows it for a process that has only created its context: 0.4 to 0.6 GiB with PyTorch on recent GPUs.
inline constexpr std::int64_t typical_context = 500 * MiB;
/// NCCL on NVLink machines; fewer on PCIe.
inline constexpr std::int64_t typical_channels = 16;
/// One for the forward's thread, one for the backward's, 2 x 4096 + 8 x 16 KiB each; on compute capability 9.x it is 32 MiB.
inline constexpr std::int64_t typical_cublas_workspace = (2 * 4096 + 8 * 16) * KiB;
inline constexpr int typical_cublas_workspaces = 2;

}  // namespace shardsim::memory
