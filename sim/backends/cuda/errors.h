// What can go wrong with a GPU, beside what a scheme or a user does.
#pragma once
#include "core/error.h"

namespace shardsim::cuda {

/// The GPU, a library of it, or another rank failed. The device adds rank, verb and unit.
struct GpuError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// A node's process is gone, and said nothing.
struct NodeGone : GpuError {
  using GpuError::GpuError;
};
/// There is no memory left on the GPU: the scenario does not fit.
struct OutOfMemory : ScenarioError {
  using ScenarioError::ScenarioError;
};
/// Ctrl-C was pressed, here or on another node.
struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};
/// What a rank's host is told when the run has already failed elsewhere; never the error that `run` reports.
struct Stopped : std::runtime_error {
  Stopped() : std::runtime_error("stopped, because another rank failed") {}
};

}  // namespace shardsim::cuda
