// BandScheme: the base class of the textbook. It holds the bands and the Adam update; a scheme adds which bands are sharded
// (shard) and which collectives run (step), in these verbs and nothing else. Stream events and legality are handled in here.
#pragma once
#include <string>
#include <vector>

#include "core/scheme.h"

namespace shardsim {

/// One micro-batch of a step. Gradients are reduced on the last one, or on every one where the gradient is sharded: a rank that
/// declines to keep foreign gradients cannot wait.
struct [[maybe_unused]] MicroBatch {
  int index;
  bool last, reduces;
};

class BandScheme : public Scheme {
 public:
  void bind(Rank&) final;
  void run_step(int step, StepReport&) final;
  std::vector<ThetaPiece> theta() final;
  const std::vector<Unit>& units() const final { return cuts_; }
  const Mesh& mesh() const final { return mesh_; }
  int sharers(const Knobs& knobs, int world) const final { return replicates() && knobs.shards > 0 ? knobs.shards : world; }
  /// Units are padded to equal slices; Adam tells weights apart that a slice may cut anywhere.
  bool is_even() const final {
    return shard().empty() || !(rank_->knobs.decays_matrices_only || rank_->knobs.adam.passes == AdamPasses::for_loop);
  }

 protected:
  /// Which bands this rank keeps only its slice of.
  ShardSet shard() const override = 0;
  /// One training step in verbs. Called between two legality checks; must not depend on data or rank.
  virtual void step() = 0;
  /// True for a scheme that deliberately lets a gather serve more than the pass that made it. Nothing bounds how many units are
  /// then gathered at once: those that it keeps, and up to `prefetch` more that look ahead.
  virtual bool keeps_gathered() const { return false; }
  /// True for a scheme whose ranks are several copies of a sharded whole: `mesh.shards` ranks share one.
  virtual bool replicates() const { return false; }

  class MicroBatches;
  MicroBatches micro_batches();  ///< this step's micro-batches; each loads its data when the loop gets there
  /// Begins a forward pass: the units in the order of their use. One whose weights serve twice (a tied embedding) comes twice.
  const std::vector<int>& forward_order();
  const std::vector<int>& backward_order();  ///< begins a backward pass

  void forward(int unit);   ///< needs readable parameters
  void backward(int unit);  ///< needs readable parameters; leaves a full gradient
  // A reduction is due when the gradient is complete: called between two turns of a unit, it waits for the last one's call.
  void all_reduce(int unit);      ///< sums what this rank keeps of the gradient over the replicas
  void reduce_scatter(int unit);  ///< sums this rank's slice of the gradient over the shards; drops the rest if grad is sharded
  void all_gather(int unit);      ///< publishes updated parameters, or borrows the full unit if param is sharded (idempotent)
  void release(int unit);         ///< ends the loan; of a scheme that keeps, when the pass has no further turn of the unit
  void clip();                    ///< scales by the global norm; nothing when clipping and loss scaling are off
  void adam();                    ///< updates every owned slice

 private:
  struct Slice {
    Dim begin, count;
  };
  struct State {
    Tensor param, grad, opt;  // resident; grad only between backward and Adam when transient
    Tensor full, gathered;    // on loan: a full gradient, the full parameters
    Event param_ready, grad_ready, gather_ready, released;
    int gathered_in = 0;     // the pass in which it was gathered
    bool is_ahead = false;   // gathered, and counted by `prefetch`: until its release, or its first use where it is kept
    bool scattered = false;  // the gradient has been summed over the shards
    bool reduced = false;    // the gradient has been summed over all ranks
    bool published = true;   // every rank's full parameters are the updated ones
    int turns = 0;           // in a pass
    int turns_left = 0;      // of this micro-batch's backward pass: its gradient is complete at 0
  };
  std::string units_with(Tensor State::*held) const;
  State& state(Verb, int unit);  // checks that there is such a unit
  void start_micro_batch(int index);
  std::vector<int>::const_iterator next_turn() const;
  Slice slice(int unit, int member) const;
  Slice owned(int unit) const;
  Tensor own_grad(int unit) const;
  Tensor own_param(int unit) const;
  Tensor readable(int unit, Verb verb);
  void prepare_gradient(int unit);
  void gather(int unit);
  void make_room(State&, Event);
  void check_can_reduce(Verb, int unit) const;
  void label(Verb verb, int unit) { rank_->device.label(verb, unit); }
  void after(Event, Lane, Edge);
  bool last_micro_batch() const { return micro_batch_ + 1 == rank_->knobs.accumulation; }
  float unscale() const { return 1.f / float(rank_->world * rank_->knobs.accumulation); }
  [[noreturn]] void illegal(Verb, int unit, const std::string& why) const;
  void check_end_of_step() const;
  void launch_adam(int unit);
  void launch_adam(int unit, Dim begin, Dim count, bool decays);

  Rank* rank_ = nullptr;
  Mesh mesh_;
  std::vector<Unit> cuts_;
  std::vector<State> states_;
  std::vector<Turn> turns_;
  std::vector<int> forward_, backward_;      // the units of the turns; a tied embedding's unit has two
  std::vector<Dim> module_begin_;            // of a module's parameters in its unit
  const std::vector<int>* order_ = nullptr;  // of the current pass
  int pass_ = 0, micro_batch_ = 0, step_ = 0;
  std::size_t forwards_ = 0, backwards_ = 0;  // of this micro-batch
  bool updated_ = false;                      // adam() has run in this step
  std::vector<Event> releases_, reductions_;  // of this step, in order
  int gathers_ = 0, full_gradients_ = 0;      // made in this step
  int incomplete_ = 0;                        // full gradients that wait for another turn of their unit: outside the budget
  Tensor factor_, scaler_;
};

/// A range over the micro-batches of a step.
class BandScheme::MicroBatches {
 public:
  struct Iterator {
    BandScheme* scheme;
    int index;
    MicroBatch operator*() const {
      scheme->start_micro_batch(index);
      return {index, scheme->last_micro_batch(), scheme->last_micro_batch() || scheme->shard().has(Band::grad)};
    }
    Iterator& operator++() { return ++index, *this; }
    bool operator!=(const Iterator& other) const { return index != other.index; }
  };
  explicit MicroBatches(BandScheme* scheme) : scheme_(scheme) {}
  Iterator begin() const { return {scheme_, 0}; }
  Iterator end() const { return {scheme_, scheme_->rank_->knobs.accumulation}; }

 private:
  BandScheme* scheme_;
};

}  // namespace shardsim
