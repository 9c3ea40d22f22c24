// Training a small model with a built-in scheme on the threads backend, for the tests of this folder.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/backend.h"
#include "core/scheme.h"

namespace shardsim::threads_tests {

inline const std::vector<std::string> scheme_names = {"dp", "zero1", "zero2", "zero3", "zero3_keep"};

struct Job {
  std::string scheme = "dp";
  std::vector<std::pair<std::string, std::string>> options;  ///< of the scheme, by name
  int world = 1;
  int steps = 3;
  bool gpt2 = false;  ///< a GPT-2 in place of the perceptron
  Knobs knobs;
  BackendSettings backend;
};

struct Trained {
  std::vector<float> theta;   ///< model order, without padding
  std::vector<float> losses;  ///< of all steps, rank after rank
  std::vector<Unit> units;
  struct Rank {
    std::int64_t traffic_bytes, control_bytes, resident_bytes, resident_state_bytes, peak_bytes;
    std::vector<Span> spans;
  };
  std::vector<Rank> ranks;
  std::int64_t padded() const;
};

/// Widths 6, 10, 10, 3: 213 parameters, which no world above 1 divides except 3. Or a GPT-2 of two blocks, all of whose tensors are
/// even.
Trained train(const Job&);

}  // namespace shardsim::threads_tests
