// fsdp2: PyTorch's fully_shard (FSDP2), on every block and on the root. Each parameter is cut along dim 0; a group gathers its
// parameters before each pass, and reduce-scatters its gradients in backward. Two gathers and one reduction: 3 of the parameters,
// less what is not resharded after forward.
//
// Simpler than the real one: FSDP2 has a stream each for copy-in and all-gather, for reduce-scatter and for the all-reduce of a 2-D
// mesh; here the first two share the gather stream, the others the reduce stream. Dim 0 is the first of the model's own layout: of
// a linear, its inputs, as in GPT-2's Conv1D; chunks differ from those of an nn.Linear only where it does not divide.
//
// Source: PyTorch's torch/distributed/fsdp/_fully_shard/ (_fsdp_param_group.py, _fsdp_collectives.py, _fsdp_param.py), 2.6 to 2.10.
#pragma once
#include "core/hooked_scheme.h"
#include "core/options.h"
#include "systems/mixed_precision.h"

namespace shardsim {

class Fsdp2 final : public HookedScheme {
 public:
  static std::vector<Option> options();
  explicit Fsdp2(const Options& options) : options_(options) {}
  ShardSet shard() const override { return {Band::param, Band::grad, Band::opt}; }
  const Mesh& mesh() const override { return mesh_; }
  int sharers(const Knobs& knobs, int world) const override { return knobs.shards > 0 ? knobs.shards : world; }

 private:
  /// Of a parameter. Dim 0 is the rows of a matrix, and the elements of a vector.
  struct State {
    std::int64_t chunk = 0;    // elements of the first rank's chunk, and so of every rank's: the last ones are padded
    Dim begin, own;            // this rank's chunk in the parameter, without padding
    Tensor shard, m, v;        // resident
    Tensor piece;              // of an int reshard_after_forward: what is kept from forward to backward
    Tensor full;               // unsharded, padded
    Tensor grad, accumulated;  // .grad; unsharded_accumulated_grad in reduce_dtype
  };
  /// A flat buffer of a group, as a collective over n ranks cuts it: rank after rank, parameter after parameter.
  struct Buffer {
    Group ranks;
    Borders borders;
    std::vector<Chunks> chunks;  // of each member, where each rank's lies
    Dim whole() const { return borders->back(); }
    Dim own() const { return (*borders)[std::size_t(ranks.me) + 1] - (*borders)[std::size_t(ranks.me)]; }
    /// Member i's place in this rank's slice: from the slice's beginning, padded.
    std::vector<std::pair<Dim, Dim>> places;
  };
  enum class Residence { sharded, sharded_post_forward, unsharded };
  /// PyTorch's FSDPParamGroup.
  struct ParamGroup {
    std::vector<int> parameters;
    Buffer buffer, post_forward;
    Residence residence = Residence::sharded;
    Tensor gathered;  // an all-gather's result that nobody has waited for
    Event gather_event, reshard_event, reduce_event;
    Tensor partial;                    // HSDP without all-reduce: reduced over the shards only
    Tensor all_reduced;                // in reduce_dtype, until the end of a backward
    Tensor reduced;                    // the sharded gradients
    std::vector<std::size_t> entries;  // in the post-forward order
    bool in_backward = false;
  };
  /// A buffer that a stream still reads, and the event after which it no longer does.
  struct Pending {
    Tensor tensor;
    Event event;
  };

  void make_bands() override;
  void pre_forward(int module) override;
  void post_forward(int module) override;
  void pre_backward(int module) override;
  void post_backward(int module) override;
  void gradient_ready(int parameter) override;
  void end_backward() override;
  void update() override;
  Tensor parameter(int p) override;
  void append_theta(std::vector<ThetaPiece>&) override;

  void read_options();
  void make_groups();
  Buffer make_buffer(const ParamGroup&, Group ranks) const;
  int group_of(int module) const { return groups_by_module_[std::size_t(module)]; }

  // FSDPParamGroup's functions, by their names.
  void unshard(int group);
  void wait_for_unshard(int group, bool forward);
  void reshard_after_forward(int group);
  void to_sharded(ParamGroup&);
  void backward_prefetch(int group);
  void group_post_backward(int group);
  void foreach_reduce(int group);
  void accumulate(ParamGroup&, Tensor fresh);

  void free_last_gather();
  Lane copy_in_lane() const { return lane(Lane::copy); }
  Lane reduce_lane() const { return lane(Lane::reduce); }

  Options options_;
  Mesh mesh_;
  MixedPrecision types_;
  int reshard_[2] = {1, 0};  // of blocks, of the root: 0 keeps, 1 reshards, k > 1 reshards to k ranks
  bool syncs_ = true, all_reduces_ = true, reshards_after_backward_ = true;  // on micro-batches but the last
  std::vector<State> states_;
  std::vector<ParamGroup> groups_;
  std::vector<int> groups_by_module_;    // -1: a module that no fully_shard was called on
  std::vector<int> post_forward_order_;  // groups
  Pending last_gather_;                  // comm_ctx.all_gather_state
  Pending last_reduce_;                  // comm_ctx.reduce_scatter_state
};

}  // namespace shardsim
