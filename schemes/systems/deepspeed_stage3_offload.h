// deepspeed stage 3 with `offload_optimizer: cpu`, and with `offload_param: cpu` beside it (ZeRO-Infinity without NVMe): masters,
// moments and gradients live on the host, where the CPU updates them; with the second, the 16-bit shards do, too, and come to the
// GPU before each gather.
//
// Over the link per own parameter, in bytes of a 16-bit gradient g: g down and g up again at the first micro-batch, g up and g down
// at each later one, 4 down at the last; then the rounded parameter up, unless it stays on the host and goes up before each gather
// instead. Copies to and from the GPU that DeepSpeed does not call non_blocking stop the host.
//
// Source: DeepSpeed, runtime/zero/stage3.py (partition_grads, step) and partition_parameters.py (_all_gather_coalesced); arXiv
// 2104.07857.
#pragma once
#include "systems/deepspeed_stage3.h"

namespace shardsim {

class DeepSpeedStage3Offload final : public DeepSpeedStage3 {
 public:
  explicit DeepSpeedStage3Offload(const Options&);

 private:
  void make_bands() override;
  Place optimizer_place() const override { return Place::host; }
  Place param_place() const override { return params_on_host_ ? Place::host : Place::device; }
  Tensor shard_to_send(Lane lane, int p) override;
  void give_back(Lane lane, Tensor shard) override;
  void lay_out_shards(Lane lane, const std::vector<int>& parameters, Tensor to) override;
  void keep(int p, Tensor piece) override;
  Tensor squares_of_gradients() override;
  Tensor make_factor(Tensor squares) override { return factor_on_host(squares); }
  void update(const SubGroup& group, Tensor factor) override;

  const bool params_on_host_;
  Tensor squares_;     // of each parameter's piece, on the GPU
  Tensor fp32_grads_;  // on the host
};

}  // namespace shardsim
