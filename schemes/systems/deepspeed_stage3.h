// deepspeed stage 3: parameters, gradients and the optimizer's state are partitioned, parameter by parameter; a module's parameters
// are gathered as it begins. Traffic 2 to 3 of the parameters, depending on how much the coordinator keeps
// (deepspeed_coordinator.h).
//
// Beside the shards a rank holds, from the first step to the last: a bucket of `reduce_bucket_size` elements, the gradient of its
// shards, and small parameters in full. A gather of several parameters is copied out of its flat buffer, which lives until the
// last of them has been used; a reduction copies the bucket before it is scattered, so that each rank's pieces lie side by side.
//
// Source: DeepSpeed 0.19.2, deepspeed/runtime/zero/stage3.py, parameter_offload.py and partition_parameters.py, and
// deepspeed/runtime/comm/coalesced_collectives.py.
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "systems/deepspeed_coordinator.h"
#include "systems/deepspeed_stage.h"

namespace shardsim {

class DeepSpeedStage3 : public DeepSpeedStage {
 public:
  /// Takes the options of `deepspeed`. Throws std::invalid_argument for what is not modelled.
  explicit DeepSpeedStage3(const Options&);
  ShardSet shard() const override { return {Band::param, Band::grad, Band::opt}; }

 protected:
  /// An all-gather and what comes of it.
  struct Gather {
    std::vector<int> parameters;
    Tensor buffer;  // empty on a single rank: nothing moves
    Borders borders;
    Event over;
    bool arrived = false;
    std::size_t unused = 0;  // parameters that nobody has waited for
    std::size_t views = 0;   // parameters that are views of the buffer
  };
  struct State {
    std::vector<Dim> cuts;            // N + 1: rank r's piece is [cuts[r], cuts[r + 1])
    std::int64_t shard = 0;           // elements of a rank's piece with its padding
    Dim at;                           // of this rank's piece in params_ and grads_
    int group = 0;                    // the sub-group that updates it
    Tensor full;                      // while it is gathered
    std::shared_ptr<Gather> pending;  // until a module has waited for it
    std::shared_ptr<Gather> lender;   // whose buffer `full` is a view of
    Tensor grad;                      // from its arrival to the flush: in the bucket, or of its own
    Dim in_bucket;
    bool bucketed = false;
    std::size_t place = 0;  // among the parameters in module order
  };
  /// What the optimizer updates at a time.
  struct SubGroup {
    Dim at, count;  // in params_ and grads_
    Tensor master, m, v;
  };
  void make_bands() override;
  void begin_micro_batch() override;
  void end_backward() override;
  void update() override;
  void append_theta(std::vector<ThetaPiece>&) override;
  Tensor parameter(int p) override;
  void gradient_ready(int p) override;
  void pre_forward(int module) override { fetch(module); }
  void post_forward(int module) override { release(module); }
  void pre_backward(int module) override { fetch(module); }
  void post_backward(int module) override { release(module); }

  // deepspeed_stage3.cpp: what is held, and the parameters.
  void cut_parameters();
  void make_sub_groups();
  void make_coordinator();
  void fetch(int module);
  void release(int module);
  void gather(std::vector<int> parameters, const std::string& trigger);
  void gather_together(std::vector<int> parameters, const std::string& trigger);
  void launch(Gather& gather, Lane lane);
  void limit_fetches();
  void wait(int p);
  void copy_out(const Gather& gather);
  void drop(int p);
  Tensor own_shard(Tensor flat, int p) const;

  // What offloading changes: where things are, how a shard gets to the GPU, and how gradients and updates get to and fro.
  virtual Place optimizer_place() const { return Place::device; }
  virtual Place param_place() const { return Place::device; }
  /// The own shard where a gather can send it from; given back when that is enqueued.
  virtual Tensor shard_to_send(Lane, int p) { return own_shard(params_, p); }
  virtual void give_back(Lane, Tensor) {}
  /// Shards side by side in `to`.
  virtual void lay_out_shards(Lane lane, const std::vector<int>& parameters, Tensor to);

  // deepspeed_stage3_step.cpp: the gradients, and the step.
  void flush(const std::string& trigger);
  void reduce_bucket();
  void scatter_gradients();
  /// The own piece of a reduced gradient, which becomes or joins that of the step.
  virtual void keep(int p, Tensor piece);
  void check_overflow();
  /// Of all ranks' gradients; freed by the caller.
  virtual Tensor squares_of_gradients();
  virtual Tensor make_factor(Tensor squares) { return update_factor(squares); }
  virtual void update(const SubGroup& group, Tensor factor);
  void gather_persistent();

  /// A rank's piece of a parameter, and the same with its padding, which has no real numbers.
  Dim piece(int p, int rank) const { return states_[p].cuts[std::size_t(rank) + 1] - states_[p].cuts[std::size_t(rank)]; }
  Dim padded(int p, int rank) const { return piece(p, rank) + Dim(states_[p].shard - piece(p, rank).charged(), 0); }
  /// Of parameters whose padded pieces lie rank by rank, and parameter by parameter within a rank.
  Borders borders_of(const std::vector<int>& parameters) const;
  void sort_by_place(std::vector<int>& parameters) const;
  std::string several(const std::vector<int>& some) const;
  int me() const { return rank().index; }
  int world() const { return rank().world; }
  Lane reduce_lane() const { return overlaps_ ? lane(Lane::reduce) : Lane::compute; }

  const bool contiguous_, scatters_, overlaps_, sequential_, fetches_by_all_reduce_, checks_overflow_;
  const std::int64_t bucket_size_, sub_group_size_, persistence_, model_persistence_;
  DeepSpeedCoordinator::Limits limits_;
  std::optional<DeepSpeedCoordinator> coordinator_;
  std::vector<State> states_;
  std::vector<int> order_;       // of parameters, module by module
  std::vector<int> persistent_;  // in that order
  std::vector<SubGroup> sub_groups_;
  Tensor params_, grads_, bucket_;
  std::vector<int> reducing_;  // what has come since the last flush
  std::int64_t elements_ = 0;  // of these
  Dim filled_;                 // of the bucket
  Event updated_;
  std::deque<Event> ongoing_fetches_;  // the gathers that parameters were waited for, the last few
};

}  // namespace shardsim
