// The backends under test, behind one entry: run a body on all ranks of a backend, by name, and get plain numbers back.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/backend.h"

namespace shardsim::conformance {

/// What a run left behind: only plain numbers, because some backends need a process per run.
struct Outcome {
  struct Rank {
    std::vector<float> result;  ///< what the rank's body put there
    std::int64_t traffic_bytes = 0, control_bytes = 0, held_bytes = 0, peak_bytes = 0;
  };
  std::vector<Rank> ranks;  ///< empty after an error
  std::string error;        ///< what() of the error that ended the run; empty if none did
  bool illegal_step = false;

  bool says(const std::string& text) const { return error.find(text) != std::string::npos; }
};

/// `result` has to be filled before the body returns.
using Body = std::function<void(Device&, Fabric&, std::vector<float>& result)>;

const std::vector<std::string>& backends();
Outcome run_on(const std::string& backend, int world, const Body&, BackendSettings = {});
Outcome run_without_numerics(const std::string& backend, int world, const Body&);

// ---- what the bodies are written with

inline Dim dim(std::int64_t n) { return {n, n}; }
/// A new vector on `lane` with these values.
Tensor put(Device&, Lane, const std::vector<float>& values, Dtype = Dtype::fp32);
/// A new vector on `lane`, not filled.
Tensor make(Device&, Lane, std::int64_t count, Dtype = Dtype::fp32);
/// Its values; waits for all lanes.
std::vector<float> get(Device&, Lane, Tensor);
void append(std::vector<float>& to, const std::vector<float>& more);
/// Equal, where NaN equals NaN.
bool same(const std::vector<float>&, const std::vector<float>&);

}  // namespace shardsim::conformance
