// deepspeed_stage12: DeepSpeed's ZeRO 1 and 2. Parameters lie in one flat tensor, cut into a partition per rank; a rank keeps the
// fp32 master and Adam's moments of its own. Gradients are copied into buckets as they come; a full bucket is all-reduced, though
// a rank needs only its own slice of it, and the slices are copied out. Adam updates the own partition, an all-gather all others.
// Traffic 3 of the parameters, where the paper has 2.
//
// Why stage 1 needs no more than stage 2: in both, a gradient's storage becomes a view of the bucket, so the original dies at once.
// With `overlap_comm` there are two buckets, and a flush makes the reduction stream wait for compute and compute for all that the
// reduction stream has queued: one reduction at most runs beside compute.
//
// Source: DeepSpeed 0.19.2, runtime/zero/stage_1_and_2.py.
#pragma once
#include <array>
#include <optional>

#include "systems/deepspeed_partitioned.h"

namespace shardsim {

class DeepSpeedStage12 : public DeepSpeedPartitioned {
 public:
  /// Throws std::invalid_argument for what DeepSpeed refuses, and for what is not modelled.
  explicit DeepSpeedStage12(const Options&);
  ShardSet shard() const override { return drops_foreign_ ? ShardSet{Band::opt, Band::grad} : ShardSet{Band::opt}; }

 protected:
  struct State {
    bool owned = false;      // touches this rank's partition
    Tensor grad;             // .grad: of its own, or a view of a bucket or of grads_in_partition
    bool is_view = false;    // the storage is not its own
    Dim in_bucket;           // where it lies there
    Dim in_partition_grads;  // where it lies in grads_in_partition
    Tensor sum;              // of its gradients over the micro-batches so far, if owned: a view of summed_grads_, or of its own
  };
  /// A part of a parameter, or of several neighbours in a bucket, that belongs to one rank.
  struct Slice {
    int owner;
    Dim begin, count;
  };
  void make_bands() override;
  void gradient_ready(int parameter) override;
  void end_backward() override;
  void update() override;

  std::vector<int> flat_order() const;
  /// Where the master and the moments are: the first thing that an offloaded optimizer changes.
  virtual Place optimizer_place() const { return Place::device; }

  // Gradients.
  Lane reduction() const { return overlaps_ ? lane(Lane::reduce) : Lane::compute; }
  void set_up_buckets();
  void add_to_bucket(int p);
  void flush(const std::string& trigger);
  void average(Tensor bucket, const std::string& trigger);
  /// Without contiguous gradients: a copy of all of them, laid side by side for the moment.
  void reduce_scattered(const std::string& trigger);
  /// At the end of backward: the own gradients that were kept join those of earlier micro-batches.
  virtual void sum_up();
  /// Without use_multi_rank_bucket_allreduce: the slices of each owner laid side by side, and a reduce to it.
  void reduce_to_owners(Tensor bucket);
  /// Slices that a rank owns, laid side by side in one collective: a reduce to `owner`, or an all-reduce of everybody's.
  void reduce_slices(Tensor bucket, const std::vector<Slice>&, std::optional<int> owner = {});
  std::vector<Slice> slices_of_bucket() const;
  /// When it has been reduced, before its bucket is used again: takes it out and drops it.
  virtual void keep_own_gradient(int p);
  void drop_gradient(int p, Lane);
  void finish_reductions();

  // The step.
  Tensor own_gradient(const Own&) const;
  void check_overflow();
  /// All ranks learn of it, and the host waits for that.
  void share_overflow();
  Tensor squares_of_partition();
  /// The own partition's gradient in fp32. It is a new tensor, or a view of the gradients that were kept.
  Tensor wide_gradient();
  /// Frees the gradients that were kept, but not the storage of `used`.
  void drop_sums(Tensor used);

  bool drops_foreign_;  // stage 2
  bool overlaps_, contiguous_, routes_slices_, reduces_to_owners_, round_robin_, checks_overflow_;
  std::int64_t bucket_elements_;
  std::vector<State> states_;

  std::array<Tensor, 2> buckets_;
  int active_ = 0;  // the bucket that fills
  Dim filled_;
  std::vector<int> members_;
  bool too_large_ = false;            // the only member does not fit and stays where it is
  int reductions_ = 0;                // of this step
  std::vector<int> reduced_foreign_;  // without contiguous gradients: dropped when the device has been waited for

  Tensor partition_grads_;  // grads_in_partition: all of each parameter that touches the partition
  Dim partition_grads_size_, partition_grads_filled_;
  Tensor summed_grads_;  // those of all micro-batches so far
};

}  // namespace shardsim
