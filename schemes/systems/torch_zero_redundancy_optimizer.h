// torch_zero_redundancy_optimizer: DDP with torch.distributed.optim.ZeroRedundancyOptimizer. Gradients meet as in DDP, but the
// optimizer's state of a parameter is on one rank only, which updates it and broadcasts the result: ZeRO 1 by broadcasts. Whole
// parameters go to the rank that has the least so far, the largest first, so that ranks differ. Traffic 3 of the gradients' bytes:
// DDP's all-reduce of 2, and a broadcast of all parameters.
//
// Source: PyTorch's torch/distributed/optim/zero_redundancy_optimizer.py and
// torch/distributed/algorithms/ddp_comm_hooks/ddp_zero_hook.py (2.6 to 2.10).
#pragma once
#include "systems/pytorch_ddp.h"

namespace shardsim {

class TorchZeroRedundancyOptimizer final : public PytorchDdp {
 public:
  static std::vector<Option> options();
  /// Throws std::invalid_argument for options that do not go together.
  explicit TorchZeroRedundancyOptimizer(const Options&);
  ShardSet shard() const override { return {Band::opt}; }

 private:
  void make_bands() override;
  Tensor make_param(int p) override;
  bool updates(int p) const override { return !overlaps_ && owners_[std::size_t(p)] == mesh().world.me; }
  int updates_before() const override { return step() - first_update_; }
  void begin_micro_batch() override;
  void buckets_launched() override;
  void update() override;

  void check_knobs() const;
  void partition();
  void lay_out(const std::vector<std::vector<int>>&);
  void broadcast(Tensor, int owner, int unit);
  void wait_for_broadcasts(const char* trigger);
  int owner_of_bucket(std::size_t bucket) const { return int(bucket) % rank().world; }

  bool bucket_view_, overlaps_;
  int first_update_;                        // with overlap_with_ddp, the first step after DDP's buckets are final
  std::vector<int> owners_;                 // of each parameter
  std::vector<std::vector<int>> by_owner_;  // parameters, in the order in which they were given away
  std::vector<Tensor> flat_;                // of each owner, with parameters_as_bucket_view; of each bucket, with overlap_with_ddp
  std::vector<Dim> places_;                 // of each parameter there
  int broadcasts_ = 0;                      // queued and not waited for
  std::int64_t broadcast_bytes_ = 0;
};

}  // namespace shardsim
