// megatron_distributed_optimizer: Megatron-LM's DistributedDataParallel, and with use_distributed_optimizer its distributed
// optimizer. Every gradient is added to one buffer that holds all of them for good, and is reduced in place, bucket by bucket. A
// rank updates its shard of each bucket; the parameters, views of a buffer with the same borders, are gathered after the step or
// under the next forward pass. Traffic: one reduce-scatter of the gradients and one gather of the parameters, however many
// micro-batches there are.
//
// Simpler than the real one: gradient_accumulation_fusion is off (backward makes a gradient, which is added and freed), and the
// loss that ranks average for the log is left out.
//
// Source: Megatron-LM (2026), megatron/core/distributed/param_and_grad_buffer.py and distributed_data_parallel.py,
// megatron/core/optimizer/distrib_optimizer.py.
#pragma once
#include "core/hooked_scheme.h"
#include "core/options.h"

namespace shardsim {

class MegatronDistributedOptimizer final : public HookedScheme {
 public:
  static std::vector<Option> options();
  explicit MegatronDistributedOptimizer(const Options&);
  ShardSet shard() const override { return is_distributed_ ? ShardSet{Band::opt} : ShardSet{}; }
  const Mesh& mesh() const override { return mesh_; }

 private:
  /// Of a parameter: views of the buffers; without the distributed optimizer, param is a tensor of its own.
  struct State {
    Tensor param, main_grad;
    int bucket = 0;
  };
  /// Megatron's bucket: a range of the buffers, cut into equal shards.
  struct Bucket {
    std::vector<int> parameters;
    Dim begin, count;  // with the padding behind
    Borders borders;   // of the shards, from begin on
    int pending = 0;   // gradients that have not come in the last backward
    bool is_reduced = false, is_gathered = true, is_dispatched = true;
    Event reduced, gathered;
  };
  /// What a rank updates: the part of a parameter that lies in its shard; all of it without the distributed optimizer.
  struct Own {
    int parameter;
    Dim begin, count;
    Tensor master, m, v;  // master: the parameter itself where it is fp32
    Tensor grad;          // fp32: of the buffer, or copied from it
  };

  void make_bands() override;
  void begin_micro_batch() override;
  void pre_forward(int module) override;
  void gradient_ready(int parameter) override;
  void end_backward() override;
  void update() override;
  Tensor parameter(int p) override;
  void append_theta(std::vector<ThetaPiece>&) override;
  float unscale() const override { return HookedScheme::unscale() / (averages_in_collective_ ? float(rank().world) : 1.f); }

  void read_options();
  void make_buckets();
  void add_own(int bucket);
  void start_grad_sync(int bucket, Lane lane);
  void start_param_sync(int bucket, Lane lane, const std::string& trigger);
  void finish_param_sync(int bucket);
  Tensor shard_of(const Bucket& bucket, Tensor buffer) const;

  Options options_;
  Mesh mesh_;
  bool is_distributed_, overlaps_reduction_, overlaps_gather_, averages_in_collective_;
  Dtype main_grad_type_ = Dtype::fp32;
  Dim size_;  // of the buffers
  Tensor params_, grads_;
  std::vector<Dim> begins_;  // of the parameters in the buffers
  std::vector<State> states_;
  std::vector<Bucket> buckets_;
  std::vector<Own> own_;
};

}  // namespace shardsim
