// nanotron_zero1: nanotron's ZeroDistributedOptimizer with accumulate_grad_in_fp32. Every parameter is cut into a slice per rank. A
// rank keeps an fp32 gradient of the whole model, to which every micro-batch adds; after the last one all of it is all-reduced at
// once, with nothing to hide under. Then each rank updates its slices, and one gather brings everyone's, through copies of the
// whole model. Traffic 5 in units of the 16-bit parameters: twice 4 bytes, and 2.
//
// Simpler than the real one: slices that are not equally long (where the ranks do not divide a parameter) are padded to the longest
// for the gather, which in PyTorch becomes a broadcast from each rank; and the loss that ranks average for the log is left out.
// nanotron asserts 16-bit parameters; fp32 ones are let in, with a master beside them, so that losses can be compared.
//
// Source: huggingface/nanotron, src/nanotron/optim/zero.py, optim/gradient_accumulator.py, trainer.py (2024).
#pragma once
#include "core/hooked_scheme.h"
#include "core/options.h"

namespace shardsim {

class NanotronZero1 final : public HookedScheme {
 public:
  static std::vector<Option> options();
  explicit NanotronZero1(const Options& options) : options_(options) {}
  ShardSet shard() const override { return {Band::opt}; }

 private:
  struct State {
    Tensor param, grad;  // grad: .grad, from its backward to the end of that
    Tensor sum;          // fp32: a view of the buffer
  };
  /// This rank's slice of a parameter; none where the parameter has fewer elements than there are ranks.
  struct Own {
    int parameter;
    Dim begin, count;
    Tensor master, m, v;  // master: a view of one buffer
  };
  void make_bands() override;
  void gradient_ready(int parameter) override;
  void end_backward() override;
  void update() override;
  Tensor parameter(int p) override;
  void append_theta(std::vector<ThetaPiece>&) override;
  /// ReduceOp.AVG divides by the ranks inside of the collective.
  float unscale() const override { return HookedScheme::unscale() / float(rank().world); }

  void check_options() const;
  /// Where a rank's slice of a parameter begins.
  Dim border(int p, int of_rank) const;
  Tensor clip_gradients();
  void gather_parameters();

  Options options_;
  Tensor sums_, masters_;
  std::vector<State> states_;
  std::vector<Own> own_;
  Borders borders_;  // of the gather: rank after rank, parameter after parameter, padded to the longest
};

}  // namespace shardsim
