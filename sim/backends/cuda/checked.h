// CUDA's answers as exceptions.
#pragma once
#include <cuda_runtime.h>

#include <string>

#include "backends/cuda/errors.h"

namespace shardsim::cuda {

inline void ensure(cudaError_t answer, const char* what) {
  if (answer == cudaSuccess) return;
  const std::string text = std::string(what) + ": " + cudaGetErrorString(answer) + " (" + cudaGetErrorName(answer) + ")";
  if (answer == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // it is no fault of the calls to come
    throw OutOfMemory(text);
  }
  throw GpuError(text);
}

}  // namespace shardsim::cuda
