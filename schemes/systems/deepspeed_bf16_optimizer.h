// deepspeed_bf16_optimizer: DeepSpeed's stage 1 with bf16 parameters and `grad_accum_dtype: fp32`. Beside the flat parameters a
// rank keeps a flat fp32 gradient of the whole model, to which every micro-batch adds. After the last backward all of it is cast to
// bf16 and all-reduced at once, on the compute stream; each rank updates its partition and gathers the others'. Traffic 3, nothing
// hidden, and 6 bytes per parameter are not partitioned.
//
// Source: DeepSpeed 0.19.2, runtime/bf16_optimizer.py, and runtime/engine.py (buffered_allreduce_fallback).
#pragma once
#include "systems/deepspeed_partitioned.h"

namespace shardsim {

class DeepSpeedBf16Optimizer final : public DeepSpeedPartitioned {
 public:
  explicit DeepSpeedBf16Optimizer(const Options& options) : DeepSpeedPartitioned(options) {}
  ShardSet shard() const override { return {Band::opt}; }

 private:
  void make_bands() override;
  void begin_micro_batch() override;
  void gradient_ready(int parameter) override;
  void end_backward() override;
  void update() override;

  Tensor sum_of(int p) const { return sum_.slice(begin_of(p), parameters()[p].count()); }

  std::vector<Tensor> grads_;  // .grad, in bf16: kept and cleared between micro-batches, dropped after the step
  Tensor sum_;                 // fp32, laid out as the parameters are
};

}  // namespace shardsim
