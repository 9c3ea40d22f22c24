// deepspeed stage 3: parameters, gradients and the optimizer's state are partitioned, parameter by parameter; a module's parameters
// are gathered as it begins. Traffic 2 to 3 of the parameters: deepspeed_coordinator.h says how much is kept.
//
// Beside the shards a rank holds, from the first step to the last: a bucket of `reduce_bucket_size` elements, the gradient of its
// shards, and small parameters in full. A gather of several parameters is copied out of its flat buffer, which lives until the
// last of them has been used; a reduction copies the bucket before it is scattered, so that each rank's pieces lie side by side.
// ZeRO++ and MiCS: deepspeed_stage3_parameters.cpp and deepspeed_quantized_gradients.h.
//
// Source: DeepSpeed 0.19.2, deepspeed/runtime/zero/stage3.py, parameter_offload.py, partition_parameters.py and mics.py, and
// deepspeed/runtime/comm/coalesced_collectives.py. ZeRO++: arXiv 2306.10209. MiCS: arXiv 2205.00119.
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "systems/deepspeed_coordinator.h"
#include "systems/deepspeed_pieces.h"
#include "systems/deepspeed_quantized_gradients.h"
#include "systems/deepspeed_stage.h"

namespace shardsim {

class DeepSpeedStage3 : public DeepSpeedStage {
 public:
  /// Takes the options of `deepspeed`. Throws std::invalid_argument for what is not modelled.
  explicit DeepSpeedStage3(const Options&);
  ShardSet shard() const override { return {Band::param, Band::grad, Band::opt}; }
  const Mesh& mesh() const override { return mesh_; }

 protected:
  struct Gather {  // an all-gather, and what comes of it
    std::vector<int> parameters;
    Group ranks;           // whose shards make them up
    Tensor buffer;         // empty on a single rank: nothing moves
    Tensor bytes, scales;  // with quantized weights: what is gathered; the buffer is made of them when they are there
    Borders borders;
    Event over;
    bool arrived = false;
    std::size_t unused = 0;  // parameters that nobody has waited for
    std::size_t views = 0;   // parameters that are views of the buffer; none: they are copied out of it
    bool copies() const { return parameters.size() > 1 && views == 0; }
  };
  struct State {
    int group = 0;                    // the sub-group that updates it
    Tensor full;                      // while it is gathered
    Tensor secondary;                 // from when it is first dropped in a step to the step's end, with hpZ
    std::shared_ptr<Gather> pending;  // until a module has waited for it
    std::shared_ptr<Gather> lender;   // whose buffer `full` is a view of
    Tensor grad;                      // from its arrival to the flush: in the bucket, or of its own
    Dim in_bucket;
    bool bucketed = false;
  };
  struct SubGroup {  // what the optimizer updates at a time
    Dim at, count;   // in params_ and grads_
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

  // deepspeed_stage3.cpp: what is held.
  void make_groups();
  void make_sub_groups();
  void make_coordinator();

  // deepspeed_stage3_parameters.cpp, and _quantized.cpp for 8 bits: how parameters come and go.
  void fetch(int module);
  void release(int module);
  void gather(std::vector<int> parameters, const std::string& trigger);
  void gather_together(std::vector<int> parameters, const std::string& trigger);
  void launch(Gather& gather, Lane lane);
  void launch_all_reduce(Gather& gather, Lane lane);
  void launch_quantized(Gather& gather, Lane lane);
  Tensor own_part(Lane lane, int p) { return states_[p].secondary ? states_[p].secondary : shard_to_send(lane, p); }
  void lay_out(Lane lane, const std::vector<int>& parameters, Tensor to);
  void lend(Gather& gather);
  void wait(int p);
  void dequantize(Gather& gather);
  void copy_out(const Gather& gather);
  void drop(int p);
  void keep_secondary(int p);
  void drop_secondaries();
  Tensor own_shard(Tensor flat, int p) const;

  // What offloading changes: where things are, how a shard gets to the GPU, and how gradients and updates get to and fro.
  virtual Place optimizer_place() const { return Place::device; }
  virtual Place param_place() const { return Place::device; }
  /// The own shard where a gather can send it from; given back when that is enqueued.
  virtual Tensor shard_to_send(Lane, int p) { return own_shard(params_, p); }
  virtual void give_back(Lane, Tensor) {}
  virtual void lay_out_shards(Lane lane, const std::vector<int>& parameters, Tensor to);  // side by side

  // deepspeed_stage3_step.cpp: the gradients, and the step.
  void flush(const std::string& trigger);
  void reduce_bucket();
  void scatter_gradients(const std::vector<int>& parameters);
  void average_one_by_one();
  virtual void keep(int p, Tensor piece);  // the own piece of a reduced gradient becomes or joins that of the step
  void sum_over_replicas();
  void check_overflow();
  virtual Tensor squares_of_gradients();  // of all ranks' gradients; freed by the caller
  virtual Tensor make_factor(Tensor squares) { return update_factor(squares); }
  virtual void update(const SubGroup& group, Tensor factor);
  void gather_persistent();

  /// The host runs ahead of at most two of these, and waits for the one before (max_param_reduce_events in stage3.py,
  /// __max_ongoing_fetch_events in partitioned_param_coordinator.py).
  void limit(std::deque<Event>& ongoing);
  std::string several(const std::vector<int>& some) const;
  const Group& shards() const { return mesh_.shards; }  // they share one copy of everything: all ranks, but for MiCS
  Lane reduce_lane() const { return overlaps_ ? lane(Lane::reduce) : Lane::compute; }
  /// Where what was gathered is made into parameters: a stream beside NCCL's. Without a fourth one, the stream that waits for it.
  Lane copy_lane() const { return knobs().streams >= 4 ? Lane::copy : Lane::compute; }

  const bool contiguous_, scatters_, overlaps_, sequential_, fetches_by_all_reduce_, quantizes_, quantizes_gradients_,
      checks_overflow_;
  const std::int64_t bucket_size_, sub_group_size_, persistence_, model_persistence_, hpz_, mics_;
  DeepSpeedCoordinator::Limits limits_;
  Mesh mesh_;
  Group secondary_;  // the ranks among which hpZ gathers again
  std::optional<DeepSpeedCoordinator> coordinator_;
  std::optional<DeepSpeedQuantizedGradients> quantized_gradients_;  // on several nodes
  DeepSpeedPieces pieces_;
  std::vector<State> states_;
  std::vector<int> order_, persistent_;  // parameters module by module; of these, the ones that stay gathered
  std::vector<SubGroup> sub_groups_;
  Tensor params_, grads_, bucket_;
  std::vector<int> reducing_;  // what has come since the last flush
  std::int64_t elements_ = 0;  // of these
  Dim filled_;                 // of the bucket
  Event updated_;
  std::deque<Event> ongoing_fetches_;     // what parameters were waited for, the last few
  std::deque<Event> ongoing_reductions_;  // the last few
};

}  // namespace shardsim
