// What can go wrong with a GPU, beside what a scheme or a user does.
#pragma once
#include "core/error.h"

namespace shardsim::cuda {

/// The GPU, a library of it, or another rank failed. The device adds rank, verb and unit.
struct GpuError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// There is no memory left on the GPU: the scenario does not fit.
struct OutOfMemory : ScenarioError {
  using ScenarioError::ScenarioError;
};
/// What a rank's host is told when the run has already failed elsewhere; never the error that `run` reports.
struct Stopped : std::runtime_error {
  Stopped() : std::runtime_error("stopped, because another rank failed") {}
};

}  // namespace shardsim::cuda
