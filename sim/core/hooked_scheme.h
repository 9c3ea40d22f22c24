// HookedScheme: the base class of the real systems. The model runs as the user wrote it, one tensor per parameter; the system hangs
// on the module hooks and on the arrival of each gradient, as PyTorch's autograd lets it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/scheme.h"

namespace shardsim {

class HookedScheme : public Scheme, protected ModuleHooks {
 public:
  void bind(Rank&) final;
  void run_step(int step, StepReport&) final;
  std::vector<ThetaPiece> theta() final;
  /// A unit per parameter, so that theta is put together in model order whatever the system's own borders are.
  const std::vector<Unit>& units() const final { return units_; }
  const Mesh& mesh() const override { return mesh_; }
  bool has_closed_forms() const final { return false; }

 protected:
  /// A parameter of the model, in model order.
  struct Parameter {
    std::string name;
    Dim rows, cols, begin;  ///< begin: in the model's flat vector
    int module = -1;        ///< whose it is
    Dim count() const { return rows * cols; }
  };
  struct MicroBatch {
    int index = 0;
    bool first = true, last = true;
  };

  // What a system is. All are called on the rank's host thread, in program order.
  virtual void make_bands() = 0;                            ///< once, in bind: allocates and fills what is held
  virtual void begin_micro_batch() {}                       ///< before the forward pass
  virtual void end_backward() {}                            ///< after the last gradient of a micro-batch
  virtual void update() = 0;                                ///< after the last micro-batch
  virtual void append_theta(std::vector<ThetaPiece>&) = 0;  ///< enqueues the downloads of the fp32 parameters that this rank owns

  // Hooks that most systems leave alone.
  void pre_forward(int) override {}
  void post_forward(int) override {}
  void pre_backward(int) override {}
  void post_backward(int) override {}
  /// A fresh tensor of the gradient's type, or the one that an earlier use of the parameter has begun.
  Tensor gradient(int parameter) override;
  /// True if gradient() hands out what earlier micro-batches have written, and this one adds to it inside of its kernels.
  virtual bool accumulates() const { return false; }
  /// Gradients are means over the ranks' micro-batches: what is left to divide by after the system's own division by the ranks.
  virtual float unscale() const { return 1.f / float(knobs().accumulation); }

  // What a system works with.
  Rank& rank() const { return *rank_; }
  Device& device() const { return rank_->device; }
  Fabric& fabric() const { return rank_->fabric; }
  const Knobs& knobs() const { return rank_->knobs; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<ModuleNode>& modules() const { return rank_->model.tree(); }
  const MicroBatch& micro_batch() const { return micro_batch_; }
  int step() const { return step_; }
  Lane lane(Lane wanted) const { return rank_->lane(wanted); }
  void label(Verb verb, int unit = -1) const { rank_->device.label(verb, unit); }
  Tensor alloc(Lane lane, Band band, Dim count, Dtype type, Place place = Place::device) const {
    return device().alloc(lane, band, one, count, type, place);
  }
  /// What the scenario asks for and the system cannot do; `why` ends with the remedy. The line begins with the scheme's name.
  [[noreturn]] void refuse(const std::string& why) const;
  /// A tensor of zeros, made on the compute lane.
  Tensor zeros(Band band, Dim count, Dtype type, Place place = Place::device) const;
  /// `waits` goes on after the event. The edge has a name, so that a test can leave it out.
  void after(Event event, Lane waits, Edge edge) const {
    if (knobs().omitted != edge) device().wait(waits, event);
  }
  /// `waits` goes on after all that `first` has queued.
  void order(Lane first, Lane waits, Edge edge) const {
    if (knobs().omitted != edge) device().wait(waits, device().record(first));
  }
  /// Fills `to` with the first values of a parameter's elements from `begin` on; what lies beyond them becomes 0.
  void upload_theta0(Tensor to, int parameter, Dim begin, Dim count) const;
  /// The gradient that the pass has written, which is the caller's now.
  Tensor take_gradient(int parameter);
  /// Whether the update needs the gradient's norm: to clip to it, or to know of an overflow.
  bool needs_norm() const { return knobs().clip > 0 || knobs().loss_scale.on; }
  /// What multiplies the gradient, from the sum of the whole gradient's squares (the same on every rank): clips, divides the loss
  /// scale out, and says whether to skip. Freed by the caller; empty if the norm is not needed. With loss scaling the host waits
  /// for the verdict, as GradScaler.step and DeepSpeed's check for overflow do.
  Tensor update_factor(Tensor squares) const;
  /// The same from what this rank has of the gradient. `parts`: the ranks whose parts together are all of it.
  Tensor update_factor(const std::vector<Tensor>& gradients, Group parts) const;
  /// The same where every rank has all of the gradient: the norm needs no collective.
  Tensor update_factor(const std::vector<Tensor>& gradients) const { return update_factor(gradients, {rank().index, 1, 1, 0}); }
  /// What Adam updates of a parameter, or of several that lie one behind the other: tensors of one size. `param` is where the
  /// master's rounded values go, and the master itself where there is none.
  struct AdamTensors {
    int parameter;  ///< or what else the label of its operations counts; -1: nothing
    Tensor grad, master, m, v, param;
  };
  /// The optimizer's step on this list of tensors, as torch.optim.AdamW walks it: `fused` in one kernel, `foreach` pass by pass
  /// over the whole list with temporaries of all, `for_loop` tensor by tensor. Where only matrices decay, the list is two parameter
  /// groups, one after the other; each entry has to be (of) one parameter then.
  void launch_adam(const std::vector<AdamTensors>&, Tensor factor) const;
  /// Updates before this step's: of a system that does not update in its first steps, fewer.
  virtual int updates_before() const { return step_; }
  /// A line of the step's timeline, for whoever asked to see it.
  void tell(const TimelineEntry& entry) const {
    if (rank_->timeline) rank_->timeline->push_back(entry);
  }

 private:
  void launch_adam(const std::vector<AdamTensors>&, Tensor factor, AdamRule) const;
  class Hooks;  // what the model calls
  Rank* rank_ = nullptr;
  std::shared_ptr<ModuleHooks> hooks_;
  Mesh mesh_;
  std::vector<Parameter> parameters_;
  std::vector<Unit> units_;
  std::vector<Tensor> gradients_;  // being made
  Tensor scaler_;                  // {scale, good steps, updates}, with loss scaling
  MicroBatch micro_batch_;
  int step_ = 0;
};

}  // namespace shardsim
