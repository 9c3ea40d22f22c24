// Estimators: the published formulas of a GPU's memory, beside what DeepSpeed's stages hold in a simulated step.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "app/scenario.h"

namespace shardsim {

/// What the formulas ask of a model and of a machine.
struct EstimatorSizes {
  TransformerShape shape;
  std::int64_t parameters = 0;     ///< a tied matrix once
  std::int64_t largest_layer = 0;  ///< parameters of the largest module, without those of its children
  std::int64_t micro_batch = 1, sequence = 1;
  int ranks = 1;
};

/// Sizes of a scenario's transformer; throws ScenarioError if it has none, or one whose parameters are fp32.
EstimatorSizes estimator_sizes(const Scenario&);

/// One formula, with the stage of DeepSpeed that it is compared with.
struct Estimate {
  std::string name, formula, source;
  int stage = 0;
  /// Bytes per GPU, by band, as the formula's authors explain its terms.
  std::array<double, band_count> bands{};
  double bytes() const;
  double of(Band band) const { return bands[std::size_t(band)]; }
};

/// The ZeRO paper's table for stages 0 to 3; DeepSpeed's code and its documentation for stage 2, both for stage 3; Megatron-LM's,
/// without and with its distributed optimizer. Nothing is offloaded, nothing is cut but for data parallelism.
std::vector<Estimate> estimates(const EstimatorSizes&);

/// The formulas and the simulated allocation of deepspeed's stages 0 to 3 for a scenario (empty: GPT-2 Large, micro-batch 4 x
/// 1024, bf16, 8 ranks of dgx-h100), band by band, with what each formula forgets. Throws ScenarioError.
std::string explain_estimators(const std::string& scenario, const std::vector<std::string>& overrides, const Registry&);

}  // namespace shardsim
