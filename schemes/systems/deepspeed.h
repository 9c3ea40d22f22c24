// deepspeed: DeepSpeed's ZeRO. One name for four stages, each a class of its own; they share the options of `zero_optimization`,
// and as in DeepSpeed a stage takes all of them and looks at its own.
//
// stage 0: deepspeed_stage0.h. Everything on every rank, all-reduces after backward. Traffic 2 of the gradients.
// stages 1, 2: deepspeed_stage12.h. The optimizer's state is partitioned, and yet gradients are all-reduced: traffic 3, not 2.
// stage 1 with `grad_accum_dtype: fp32`: deepspeed_bf16_optimizer.h.
// stage 3: deepspeed_stage3.h. Parameters are partitioned too, and gathered module by module.
// with `offload_optimizer: cpu` [and `offload_param: cpu`]: deepspeed_stage12_offload.h, deepspeed_stage3_offload.h.
//
// Source: deepspeed/runtime/zero/config.py, zero/offload_config.py and config.py of DeepSpeed 0.19.2.
#pragma once
#include <memory>
#include <vector>

#include "core/options.h"
#include "core/scheme.h"

namespace shardsim {

class DeepSpeed final : public Scheme {
 public:
  static std::vector<Option> options();
  /// Throws std::invalid_argument for what DeepSpeed itself refuses, and for what is not modelled.
  explicit DeepSpeed(const Options&);

  void bind(Rank& rank) override { stage_->bind(rank); }
  void run_step(int step, StepReport& report) override { stage_->run_step(step, report); }
  std::vector<ThetaPiece> theta() override { return stage_->theta(); }
  const std::vector<Unit>& units() const override { return stage_->units(); }
  const Mesh& mesh() const override { return stage_->mesh(); }
  ShardSet shard() const override { return stage_->shard(); }
  bool has_closed_forms() const override { return stage_->has_closed_forms(); }

 private:
  std::unique_ptr<Scheme> stage_;
};

}  // namespace shardsim
