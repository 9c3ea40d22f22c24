// Stream: CUDA's calls, and which events are made anew.
#include "backends/cuda/stream.h"

#include "backends/cuda/blas.h"
#include "backends/cuda/checked.h"

namespace shardsim::cuda {

Stream::~Stream() {
  for (cudaEvent_t event : events_) (void)cudaEventDestroy(event);
  for (cudaEvent_t event : spare_) (void)cudaEventDestroy(event);
  if (workspace_) (void)cudaFreeAsync(workspace_, handle);
  if (handle) (void)cudaStreamDestroy(handle);
}

void Stream::open() {
  if (!handle) ensure(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking), "a stream could not be made");
}

std::uint64_t Stream::mark() {
  if (fresh_) return marks();
  cudaEvent_t event = nullptr;
  if (spare_.empty()) {
    ensure(cudaEventCreate(&event), "an event could not be made");
  } else {
    event = spare_.back();
    spare_.pop_back();
  }
  events_.push_back(event);
  ensure(cudaEventRecord(event, handle), "an event could not be recorded");
  fresh_ = true, worked_ = false;
  return marks();
}

void Stream::wait_for(cudaEvent_t event) {
  ensure(cudaStreamWaitEvent(handle, event, 0), "a wait could not be enqueued");
  worked();
}

void Stream::retire() {
  retired_ += events_.size();
  spare_.insert(spare_.end(), events_.begin(), events_.end());
  events_.clear();
  fresh_ = false;  // what comes next comes later: the host has waited
}

void* Stream::scratch(std::size_t bytes) {
  void* at = scratch_.take(bytes, handle);
  if (at) taken_.push_back(at);
  return at;
}

void Stream::release_scratch() noexcept {
  for (void* at : taken_) (void)cudaFreeAsync(at, handle);  // a fault shows in the next call
  taken_.clear();
}

void Stream::product(const Product& product) {
  if (!workspace_) workspace_ = scratch_.take(Blas::workspace_bytes, handle);
  blas_.product(product, workspace_, handle);
}

}  // namespace shardsim::cuda
