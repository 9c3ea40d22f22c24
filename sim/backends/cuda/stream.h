// Stream: the CUDA stream of one of a rank's lanes, with the events that were recorded on it and the memory that its kernels need
// for themselves.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "backends/cuda/executor.h"
#include "backends/cuda/pool.h"

namespace shardsim::cuda {

class Blas;

/// Events are numbered from 1 on, per lane. Those up to `retired` are over: their CUDA events have gone back to be used again.
class Stream {
 public:
  Stream(Pool& scratch, Blas& blas) : scratch_(scratch), blas_(blas) {}
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  /// Makes the stream; lanes that are never used have none.
  void open();
  bool is_open() const { return handle != nullptr; }

  /// The number of an event that everything enqueued so far comes before; a new one only if something was enqueued since the last.
  std::uint64_t mark();
  /// The number of an event at whose date the stream gets to what is enqueued next: memory takes no time, so it needs no new one.
  std::uint64_t date() { return worked_ || events_.empty() ? mark() : marks(); }
  /// Work was enqueued since the last mark, or memory taken or given back.
  void worked() { fresh_ = false, worked_ = true; }
  void changed() { fresh_ = false; }
  std::uint64_t marks() const { return retired_ + events_.size(); }
  std::uint64_t retired() const { return retired_; }
  /// Of an event that is not retired.
  cudaEvent_t event(std::uint64_t number) const { return events_[std::size_t(number - retired_ - 1)]; }
  void wait_for(cudaEvent_t);
  /// The stream is empty: all events are over.
  void retire();

  // What an op's kernels ask for.
  void* scratch(std::size_t bytes);
  void release_scratch() noexcept;
  void product(const Product&);

  cudaStream_t handle = nullptr;

 private:
  Pool& scratch_;
  Blas& blas_;
  std::vector<void*> taken_;
  void* workspace_ = nullptr;  // of cuBLASLt
  std::deque<cudaEvent_t> events_;
  std::vector<cudaEvent_t> spare_;
  std::uint64_t retired_ = 0;
  bool fresh_ = false, worked_ = false;  // nothing, or some work, was enqueued since the last mark
};

}  // namespace shardsim::cuda
