// deepspeed_stage0: DeepSpeed without ZeRO. Every rank keeps everything, tensor by tensor. Nothing is reduced while backward goes
// on: the engine flattens gradients into buckets of 5e8 elements afterwards, and all-reduces them on the compute stream. Traffic 2
// of the gradients, all of it exposed; `overlap_comm` and `reduce_bucket_size` are not looked at.
//
// With 16-bit parameters and PyTorch's own Adam the wrapper is FP16_UnfusedOptimizer: an fp32 copy of each tensor.
// Source: DeepSpeed 0.19.2, runtime/engine.py (buffered_allreduce_fallback) and runtime/fp16/unfused_optimizer.py.
#pragma once
#include "systems/deepspeed_stage.h"

namespace shardsim {

class DeepSpeedStage0 final : public DeepSpeedStage {
 public:
  explicit DeepSpeedStage0(const Options& options) : DeepSpeedStage(options) {}
  ShardSet shard() const override { return {}; }

 private:
  struct State {
    Tensor param, m, v;
    Tensor master;  // the parameter itself where that is fp32
    Tensor grad;    // .grad
    Tensor wide;    // fp32_param.grad, during the step
  };
  void make_bands() override;
  void gradient_ready(int parameter) override;
  void end_backward() override;
  void update() override;
  Tensor parameter(int p) override;
  void append_theta(std::vector<ThetaPiece>&) override;

  void reduce(const std::vector<int>& bucket, int number);
  /// The host looks at every gradient, one after the other.
  void check_overflow();
  Tensor squares_of_gradients();

  std::vector<int> order_;
  std::vector<State> states_;
};

}  // namespace shardsim
