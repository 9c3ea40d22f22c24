// deepspeed stages 1 and 2 with `offload_optimizer: cpu` (ZeRO-Offload): the fp32 partition, its gradient and Adam's moments live
// on the host, and the CPU updates them. What is new beside deepspeed_stage12.h: a gradient that this rank owns goes to the host,
// in fp32, as soon as it is reduced; a step is the CPU's, while the GPU waits; the partition comes back rounded, before the
// all-gather.
//
// Over the link per own parameter: 4 bytes down, and its own bytes up. With several micro-batches stage 2 also sends the gradient
// of each but the last down in its own type, all of each parameter that touches the partition, and every one but the first fetches
// it and adds on the GPU; stage 1, which accumulates on the GPU, fetches zeros at the last. (So in earlier releases. The newest
// source brings down the first micro-batch's only, which loses those between it and the last: here it is a sum.) The host waits at
// every own gradient, because the scan for an overflow asks for its verdict.
//
// Source: DeepSpeed, runtime/zero/stage_1_and_2.py, "CPU Offload Methods" and step; arXiv 2101.06840.
#pragma once
#include "systems/deepspeed_stage12.h"

namespace shardsim {

class DeepSpeedStage12Offload final : public DeepSpeedStage12 {
 public:
  /// Throws std::invalid_argument, too, for what is not modelled beside offloading.
  explicit DeepSpeedStage12Offload(const Options&);

 private:
  void make_bands() override;
  Place optimizer_place() const override { return Place::host; }
  void keep_own_gradient(int p) override;
  void sum_up() override {}  // done when they were kept
  void update() override;

  void accumulate(int p, Lane lane);
  Tensor squares_of_own();

  std::vector<std::size_t> pieces_;  // of each own parameter, its place in own()
  std::vector<Tensor> accumulated_;  // on the host, of each own parameter: the sum of earlier micro-batches
  Tensor squares_;                   // of each piece
  Tensor scratch_, host_scratch_;    // as large as the largest parameter; DeepSpeed does not use the host's
  Tensor host_grad_;                 // of the partition, fp32
  Tensor host_param_;                // of the partition, as the GPU will have it
};

}  // namespace shardsim
