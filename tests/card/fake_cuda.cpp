// CUDA's runtime as far as the backend calls it, on the host's memory; and the card's kernels as plain loops.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "backends/cuda/checked.h"
#include "backends/cuda/run_op.h"
#include "card/fake_card.h"
#include "card/fake_stream.h"
#include "gpu/run_kernels.h"

using shardsim::test::fake_card;
using shardsim::test::FakeStream;

namespace {

struct FakeEvent {
  FakeStream* on = nullptr;
  std::chrono::steady_clock::time_point at;
};

struct FakePool {
  std::int64_t used = 0, high = 0;
};

/// What lies in which pool.
struct Memory {
  std::mutex mutex;
  std::int64_t used = 0;
  struct Piece {
    FakePool* pool;
    std::int64_t bytes;
  };
  std::map<void*, Piece> pieces;
};
Memory& memory() {
  static Memory one;
  return one;
}

FakeStream* stream_of(cudaStream_t stream) { return reinterpret_cast<FakeStream*>(stream); }
FakeEvent* event_of(cudaEvent_t event) { return reinterpret_cast<FakeEvent*>(event); }
FakePool* pool_of(cudaMemPool_t pool) { return reinterpret_cast<FakePool*>(pool); }

cudaError_t state() { return fake_card().launches_until_fault == 0 ? cudaErrorIllegalAddress : cudaSuccess; }
cudaError_t state_of(const FakeStream* stream) {
  if (state() != cudaSuccess) return state();
  return stream && stream->busy ? cudaErrorNotReady : cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = fake_card().gpus;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* facts, int) {
  std::strcpy(facts->name, "a card that is none");
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return state(); }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorIllegalAddress ? "cudaErrorIllegalAddress" : "cudaErrorMemoryAllocation";
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorIllegalAddress ? "an illegal memory access was encountered" : "out of memory";
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = reinterpret_cast<cudaStream_t>(new FakeStream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream_of(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return state_of(stream_of(stream)); }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return state(); }

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = reinterpret_cast<cudaEvent_t>(new FakeEvent);
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event_of(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  *event_of(event) = {stream_of(stream), std::chrono::steady_clock::now()};
  return state();
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return state_of(event_of(event)->on); }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return state(); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  *milliseconds = std::chrono::duration<float, std::milli>(event_of(to)->at - event_of(from)->at).count();
  return state();
}

cudaError_t cudaMallocHost(void** at, size_t bytes) {
  *at = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* at) {
  std::free(at);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  std::memcpy(to, from, bytes);
  if (shardsim::test::comes_to(fake_card().copies_until_signal)) (void)raise(fake_card().signal);
  return state();
}
cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t) {
  std::memset(at, value, bytes);
  return state();
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
  *pool = reinterpret_cast<cudaMemPool_t>(new FakePool);
  return cudaSuccess;
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  const std::lock_guard lock(memory().mutex);
  for (auto at = memory().pieces.begin(); at != memory().pieces.end();) {
    if (at->second.pool != pool_of(pool)) {
      ++at;
      continue;
    }
    std::free(at->first);
    memory().used -= at->second.bytes;
    at = memory().pieces.erase(at);
  }
  delete pool_of(pool);
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void* value) {
  const std::lock_guard lock(memory().mutex);
  *static_cast<std::uint64_t*>(value) =
      std::uint64_t(which == cudaMemPoolAttrUsedMemCurrent ? pool_of(pool)->used : pool_of(pool)->high);
  return cudaSuccess;
}
cudaError_t cudaMallocFromPoolAsync(void** at, size_t bytes, cudaMemPool_t pool, cudaStream_t) {
  const std::int64_t rounded = std::int64_t((bytes + 511) / 512 * 512);
  const std::lock_guard lock(memory().mutex);
  if (memory().used + rounded > fake_card().memory) return cudaErrorMemoryAllocation;
  *at = std::aligned_alloc(512, std::size_t(rounded));
  memory().pieces[*at] = {pool_of(pool), rounded};
  memory().used += rounded, pool_of(pool)->used += rounded;
  pool_of(pool)->high = std::max(pool_of(pool)->high, pool_of(pool)->used);
  return state();
}
cudaError_t cudaFreeAsync(void* at, cudaStream_t) {
  const std::lock_guard lock(memory().mutex);
  const auto found = memory().pieces.find(at);
  if (found == memory().pieces.end()) return cudaErrorInvalidValue;
  memory().used -= found->second.bytes, found->second.pool->used -= found->second.bytes;
  memory().pieces.erase(found);
  std::free(at);
  return state();
}

}  // extern "C"

namespace shardsim {

namespace test {

FakeCard& fake_card() {
  static FakeCard one;
  return one;
}

}  // namespace test

namespace cuda {

void run(Stream&, const Op& op) {
  std::int64_t left = fake_card().launches_until_fault;
  while (left > 0 && !fake_card().launches_until_fault.compare_exchange_weak(left, left - 1)) {}
  gpu_tests::HostExecutor on;
  std::visit([&](const auto& o) { perform(on, o); }, op);
}

void move_in_ring_order(Stream&, std::span<const Collective> members, bool poisons) {
  gpu_tests::HostExecutor on;
  move_in_ring_order(on, members, poisons);
}

}  // namespace cuda
}  // namespace shardsim
