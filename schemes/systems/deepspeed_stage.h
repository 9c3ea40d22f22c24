// deepspeed_stage: what DeepSpeed's stages share: the order of parameters, and how a bucket is summed over the ranks.
#pragma once
#include "core/hooked_scheme.h"
#include "core/options.h"

namespace shardsim {

class DeepSpeedStage : public HookedScheme {
 protected:
  explicit DeepSpeedStage(const Options&);
  /// Throws ScenarioError for types that DeepSpeed does not combine. `sums`: in which gradients are accumulated; by default their
  /// own.
  void check_types() const { check_types(knobs().precision.grad); }
  void check_types(Dtype sums) const;
  /// torch's parameters(): module by module; a tied one where it is met first.
  std::vector<int> in_module_order() const;

  /// Views laid one behind the other in a new tensor; freed by the caller.
  Tensor flattened(Lane lane, Band band, const std::vector<Tensor>& views) const;
  /// buffer = its sum over the ranks, in the type of communication. Divided before, after, or on both sides, as the options say;
  /// not at all if not `divides`.
  void all_reduce(Lane lane, Tensor buffer, bool divides) const;
  /// At the root, buffer = its sum over the ranks, in the type of communication; not divided.
  void reduce(Lane lane, Tensor buffer, int root) const;
  /// An all-reduce of something small, which is no traffic, over the ranks that have a part each.
  void all_reduce_control(Lane lane, Tensor buffer) const { fabric().all_reduce(lane, mesh().shards, buffer, Payload::control); }
  void scale(Lane lane, Tensor x, double factor) const { device().launch(lane, Scale{x, x, factor, 0}); }

  // With offload_optimizer: cpu.
  /// Throws ScenarioError for what DeepSpeedCPUAdam is not, and for what is not modelled beside it.
  void check_cpu_adam() const;
  /// The host goes on when the lane is empty: after a copy without non_blocking, and after work that is the CPU's own.
  void host_waits_for(Lane lane) const { device().synchronize(device().record(lane)); }
  /// A gradient's way to the host: in fp32, by a copy on the GPU where it is in 16 bits.
  void copy_to_host(Lane lane, Tensor grad, Tensor to) const;
  /// sum = the sum of squares over the ranks, from this rank's part of it on the host.
  void sum_over_ranks(Lane lane, Tensor squares, Tensor sum) const;
  /// update_factor's, on the host, which waits for it, or for the norm where there is no factor. Freed by the caller.
  Tensor factor_on_host(Tensor squares) const;

 private:
  /// Calls communicate(tensor) with the buffer, or with a copy of it in the type of communication that is copied back.
  template <class Communicate>
  void in_type_of_communication(Lane lane, Tensor buffer, const Communicate& communicate) const;
  bool prescales_;
  double predivide_;
  std::string accumulation_type_;
};

}  // namespace shardsim
