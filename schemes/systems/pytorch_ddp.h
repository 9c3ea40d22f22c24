// pytorch_ddp: torch.nn.parallel.DistributedDataParallel. Every rank keeps everything; gradients meet bucket by bucket while
// backward goes on. The first iteration has one bucket; then buckets follow the order in which gradients came. Traffic 2 of the
// gradients.
//
// Source: PyTorch's torch/nn/parallel/distributed.py and torch/csrc/distributed/c10d/reducer.cpp (2024).
#pragma once
#include "core/hooked_scheme.h"
#include "core/options.h"

namespace shardsim {

class PytorchDdp : public HookedScheme {
 public:
  static std::vector<Option> options();
  explicit PytorchDdp(const Options&);
  ShardSet shard() const override { return {}; }

 protected:
  struct Bucket {
    std::vector<int> parameters;
    Tensor flat;
    int pending = 0;  // gradients that have not come in this backward
    Event reduced;
  };
  struct State {
    Tensor param, opt;  // resident; opt is m and v, behind the master where there is one
    Tensor grad;        // .grad: of its own, or a view of the bucket
    int bucket = 0;
    Dim at;  // where it lies in its bucket
  };
  void make_bands() override;
  void begin_micro_batch() override;
  void end_backward() override;
  void update() override;

  /// Where a parameter lives.
  virtual Tensor make_param(int p) { return alloc(Lane::compute, Band::param, parameters()[p].count(), knobs().precision.param); }
  /// Whether this rank updates a parameter, and so keeps the optimizer's state of it.
  virtual bool updates(int /*p*/) const { return true; }
  /// All buckets' reductions are queued, and nobody has waited for them: a communication hook's turn.
  virtual void buckets_launched() {}

  void make_opt(int p);
  /// What Adam needs of a parameter, its gradient being `grad`.
  AdamTensors adam_tensors(int p, Tensor grad) const;
  void zero_grad();
  const std::vector<Bucket>& buckets() const { return buckets_; }
  State& state(int p) { return states_[std::size_t(p)]; }

 private:
  void gradient_ready(int parameter) override;
  Tensor parameter(int p) override;
  void append_theta(std::vector<ThetaPiece>&) override;

  /// Closes a bucket when it reaches the limit: the first one's, then `bucket_cap_mb`.
  std::vector<std::vector<int>> cut(const std::vector<int>& order) const;
  void make_buckets(const std::vector<std::vector<int>>&);
  void launch_ready_buckets();
  Tensor view(int p) const;

  std::int64_t cap_, first_cap_;
  bool bucket_view_, static_graph_, find_unused_;
  std::vector<State> states_;
  std::vector<Bucket> buckets_;
  std::vector<int> arrivals_;  // of the first iteration's gradients
  std::size_t next_ = 0;       // the bucket that is reduced next
  bool rebuilt_ = false;
};

}  // namespace shardsim
