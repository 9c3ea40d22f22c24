// fsdp1: PyTorch's FullyShardedDataParallel (FSDP1), on every block and on the root. The parameters of a unit are one flat
// parameter, cut into a shard per rank, anywhere; it is gathered before each pass and freed after it, and its gradient is
// reduce-scattered. Two gathers and one reduction: 3 of the parameters, less what the root does not gather twice; other strategies
// keep, or do not cut.
//
// The host holds gathers back (limit_all_gathers), no stream does: memory that another stream still uses goes back when that stream
// gets there, as with record_stream. All collectives of a process group run in the order in which the host has issued them.
//
// Simpler than the real one: it has a stream each for casts and for gathers, which share the gather stream here, and for the
// reduce-scatter and for the all-reduce of HYBRID_SHARD, which share the reduce stream.
//
// Source: PyTorch's torch/distributed/fsdp/ (_runtime_utils.py, _flat_param.py, _init_utils.py, api.py, wrap.py), 2023 to 2025.
#pragma once
#include <deque>

#include "core/hooked_scheme.h"
#include "core/image.h"
#include "core/options.h"
#include "systems/mixed_precision.h"

namespace shardsim {

class Fsdp1 final : public HookedScheme {
 public:
  static std::vector<Option> options();
  /// Throws std::invalid_argument for options that contradict each other, and for what is not modelled.
  explicit Fsdp1(const Options&);
  ShardSet shard() const override { return sharded_ ? ShardSet{Band::param, Band::grad, Band::opt} : ShardSet{}; }
  const Mesh& mesh() const override { return mesh_; }
  int sharers(const Knobs& knobs, int world) const override { return hybrid_ ? knobs.shards : world; }

 private:
  /// A piece of a parameter in this rank's shard.
  struct Own {
    int parameter;
    Dim begin, count;  // in the parameter
    Dim at;            // in the shard
  };
  /// What the optimizer sees as one tensor.
  struct Slice {
    Dim at, count;  // in the shard
    int parameter;  // with use_orig_params; otherwise the unit, of whose flat parameter it is
    Tensor m, v;
  };
  /// PyTorch's FlatParamHandle: one unit's flat parameter. Without sharding it has one shard, the whole.
  struct Handle {
    std::vector<int> parameters;
    std::vector<Dim> begins;  // of each in the flat parameter
    Dim count;                // of the flat parameter; what is gathered is padded to equal shards
    Borders borders;          // of the shards
    std::vector<Own> own;
    std::vector<Slice> slices;
    Tensor shard;                             // resident, in the original type
    Tensor mp_shard, full_param;              // _mp_shard, _full_param_padded: while they are used
    Tensor grad, saved_grad_shard;            // unsharded; reduced, over micro-batches
    int pre_forward = -1, post_forward = -1;  // positions in the recorded orders
    bool prefetched = false, needs_backward_unshard = false, in_backward = false;
    /// What the optimizer reads.
    Tensor& reduced(bool sharded) { return sharded ? saved_grad_shard : grad; }
  };
  enum class Prefetch { none, pre, post };

  void make_bands() override;
  void pre_forward(int module) override;
  void post_forward(int module) override;
  void pre_backward(int module) override;
  void post_backward(int module) override;
  /// The flat parameter's own gradient is complete when the unit's backward is.
  void gradient_ready(int) override {}
  void end_backward() override;
  void update() override;
  Tensor parameter(int p) override;
  void append_theta(std::vector<ThetaPiece>&) override;

  void read_scenario();
  void make_handles();
  void lay_out(Handle&) const;
  void fill(Handle&);
  int handle_of(int module) const { return handles_by_module_[std::size_t(module)]; }
  Handle& at(int handle) { return handles_[std::size_t(handle)]; }

  // fsdp1_passes.cpp, by the names in _runtime_utils.py.
  void unshard(int handle, const std::string& trigger);
  void limit_rate();
  void wait_for_unshard();
  void reshard(int handle, bool frees, const std::string& trigger);
  void prefetch_for_backward(int handle, const std::string& trigger);
  void prefetch(int handle, const std::string& trigger);
  void post_backward_hook(int handle);
  /// One process group has one stream of NCCL's: its collectives run in the order of issue, whatever stream they come from.
  template <class Collective>
  void in_turn(Lane lane, const Collective& collective) {
    device().wait(lane, turn_);
    collective();
    turn_ = device().record(lane);
  }

  // fsdp1_gradients.cpp: what becomes of a unit's gradients, and the step.
  void complete_gradient(Handle&);
  void reduce_grad(int handle);
  void reduce_scatter(int handle, Tensor grad);
  void all_reduce(int handle, Tensor grad);
  void divide(Tensor x, double divisor) const;
  Tensor cast(Lane, Tensor from, Dtype) const;
  Tensor converted(Lane, Tensor from, Dtype) const;

  static std::string in_words(const std::string& hook, int handle) { return hook + " of unit " + std::to_string(handle); }
  bool syncs() const { return !no_sync_ || micro_batch().last; }
  Lane gather_lane() const { return lane(Lane::gather); }
  Lane reduce_lane() const { return lane(Lane::reduce); }

  Options options_;
  bool sharded_, hybrid_, reshards_after_forward_;  // the strategy
  Prefetch backward_prefetch_;
  bool forward_prefetch_, limits_, orig_params_, no_sync_, keeps_low_precision_;
  Mesh mesh_;
  MixedPrecision types_;
  double predivide_ = 1, postdivide_ = 1;
  std::vector<Handle> handles_;
  std::vector<std::pair<int, std::size_t>> places_;  // of each parameter: its handle, and which of the handle's it is
  std::vector<int> handles_by_module_;               // -1: a module without parameters of its own unit
  std::vector<int> pre_forward_order_, post_forward_order_;
  std::deque<Event> free_events_;  // the rate limiter's
  Event turn_;                     // of the process group's last collective
};

}  // namespace shardsim
