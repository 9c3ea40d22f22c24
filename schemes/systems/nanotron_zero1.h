// nanotron_zero1: nanotron's ZeroDistributedOptimizer with accumulate_grad_in_fp32. Every parameter is cut into a slice per rank. A
// rank keeps an fp32 gradient of the whole model, to which every micro-batch adds; after the last one all of it is all-reduced at
// once, with nothing to hide under. Then each rank updates its slices, and one gather brings everyone's, through copies of the
// whole model. Traffic 5 in units of the 16-bit parameters: twice 4 bytes, and 2.
//
// With zero_stage: 0 the model is wrapped into PyTorch's DDP, whose hook adds each full bucket to the fp32 gradient and all-reduces
// that, under backward: traffic 4, and the buckets are held beside it.
//
// Simpler than the real one: a bucket's tensors are one collective each, not a group, and buckets are cut in the reverse order of
// parameters from the beginning; slices that are not equally long (where the ranks do not divide a parameter) are padded to the
// longest for the gather, which in PyTorch becomes a broadcast from each rank; and the loss that ranks average for the log is left
// out. nanotron asserts 16-bit parameters; fp32 ones are let in, with a master beside them, so that losses can be compared.
//
// Source: huggingface/nanotron, src/nanotron/optim/zero.py, optim/gradient_accumulator.py, trainer.py (2024).
#pragma once
#include "core/hooked_scheme.h"
#include "core/options.h"

namespace shardsim {

class NanotronZero1 final : public HookedScheme {
 public:
  static std::vector<Option> options();
  explicit NanotronZero1(const Options&);
  ShardSet shard() const override { return is_sharded_ ? ShardSet{Band::opt} : ShardSet{}; }

 private:
  struct State {
    Tensor param, grad;  // grad: .grad, from its backward to the end of that
    Tensor sum;          // fp32: a view of the buffer
    int bucket = 0;
    Tensor in_bucket;
  };
  /// DDP's, without ZeRO-1.
  struct Bucket {
    std::vector<int> parameters;
    int pending = 0;  // gradients that have not come in this backward
    Event reduced;
  };
  /// This rank's slice of a parameter; none where the parameter has fewer elements than there are ranks.
  struct Own {
    int parameter;
    Dim begin, count;
    Tensor master, m, v;  // master: a view of one buffer
  };
  void make_bands() override;
  void begin_micro_batch() override;
  void gradient_ready(int parameter) override;
  void end_backward() override;
  void update() override;
  Tensor parameter(int p) override;
  void append_theta(std::vector<ThetaPiece>&) override;
  /// ReduceOp.AVG divides by the ranks inside of the collective.
  float unscale() const override { return HookedScheme::unscale() / float(rank().world); }

  void check_options() const;
  void make_buckets();
  void reduce(const Bucket& bucket) const;
  void accumulate();
  /// Where a rank's slice of a parameter begins; without ZeRO-1 there is one of each.
  Dim border(int p, int of_rank) const;
  void gather_parameters();

  bool is_sharded_, is_newest_;
  double bucket_bytes_;
  int slices_ = 1, slice_ = 0;  // of each parameter; this rank's
  Tensor sums_, masters_;
  std::vector<State> states_;
  std::vector<Own> own_;
  std::vector<Bucket> buckets_;
  std::size_t next_ = 0;  // the bucket that is reduced next
  Borders borders_;       // of the gather: rank after rank, parameter after parameter, padded to the longest
};

}  // namespace shardsim
