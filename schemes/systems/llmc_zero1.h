// llmc_zero1: llm.c's training of GPT-2, with its ZeRO-1 or without. Parameters are one block, gradients another, which backward
// adds to in place, and the activations a third, allocated once. Backward of the last micro-batch sends each layer's gradients on
// their way as one group; with ZeRO-1 every tensor by itself is reduce-scattered, updated by slices, and gathered: traffic 2.
//
// Simpler than the real one: NCCL launches a group's collectives as one kernel, here each is one. What llm.c computes again in
// backward (`recompute`) the models here keep: only the time of it is spent. And llm.c has no event between AdamW and the gather
// that reads what it wrote, on another stream; here is one.
//
// Source: karpathy/llm.c, train_gpt2.cu and llmc/zero.cuh, May 2024 and May 2025.
#pragma once
#include "core/hooked_scheme.h"
#include "core/options.h"

namespace shardsim {

class LlmcZero1 final : public HookedScheme {
 public:
  static std::vector<Option> options();
  explicit LlmcZero1(const Options&);
  ShardSet shard() const override { return is_sharded_ ? ShardSet{Band::opt} : ShardSet{}; }

 private:
  struct State {
    Tensor param, grad;  // views of the blocks
    Dim begin, count;    // this rank's slice in the parameter
    Dim at;              // of it in master, m and v
    Borders borders;     // of the ranks' slices
    Tensor own(Tensor whole) const { return whole.slice(begin, count); }
  };
  /// One of llm.c's parameter tensors: of a layer's, those of all layers are one.
  struct Kind {
    std::string name;
    std::vector<int> parameters;
  };
  /// One of the arrays that llm.c lays out in its static allocation.
  struct Array {
    const char* name;
    std::int64_t count;
    Dtype type;
  };

  void make_bands() override;
  void begin_micro_batch() override;
  void pre_backward(int module) override;
  void post_backward(int module) override;
  void gradient_ready(int) override {}
  void end_backward() override;
  void update() override;
  Tensor parameter(int p) override { return as_matrix(states_[std::size_t(p)].param, p); }
  Tensor gradient(int p) override { return as_matrix(states_[std::size_t(p)].grad, p); }
  bool accumulates() const override { return !micro_batch().first; }
  /// ncclAvg divides by the ranks inside of the collective.
  float unscale() const override { return HookedScheme::unscale() / float(rank().world); }
  void append_theta(std::vector<ThetaPiece>&) override;

  void check_options() const;
  void allocate_activations();
  std::vector<Array> activations() const;
  std::vector<Array> gradients_of_activations() const;
  Tensor as_matrix(Tensor flat, int p) const { return flat.matrix(none, parameters()[p].rows, parameters()[p].cols); }
  void reduce(const std::vector<int>& group, const std::string& trigger);
  /// NCCL has one stream.
  Lane nccl() const { return lane(Lane::reduce); }

  bool is_sharded_, uses_cudnn_, is_of_2024_;
  int recompute_;
  Gpt2Sizes sizes_;
  Tensor params_, grads_, m_, v_, master_;
  std::vector<State> states_;
  std::vector<std::vector<int>> layers_;  // parameters by module; empty for what is no layer
  std::vector<int> others_;               // parameters outside of the layers
  std::vector<Kind> kinds_;
};

}  // namespace shardsim
