// HookedScheme: the base class of the real systems. The model runs as the user wrote it, one tensor per parameter; the system hangs
// on the module hooks and on the arrival of each gradient, as PyTorch's autograd lets it.
#pragma once
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
  Tensor alloc(Lane lane, Band band, Dim count, Dtype type) const { return device().alloc(lane, band, one, count, type); }
  /// Fills `to` with the first values of a parameter's elements from `begin` on; what lies beyond them becomes 0.
  void upload_theta0(Tensor to, int parameter, Dim begin, Dim count) const;
  /// The gradient that the pass has written, which is the caller's now.
  Tensor take_gradient(int parameter);
  /// The multiplier that clips to `clip`, from the sum of squares of the whole gradient; empty if nothing is clipped.
  Tensor factor_of_clipping(Tensor squares) const;
  /// One Adam step on a slice; `param` is where the master's rounded values go (the master itself where there is none).
  void launch_adam(Tensor grad, Tensor factor, Tensor master, Tensor m, Tensor v, Tensor param) const;
  /// A line of the step's timeline, for whoever asked to see it.
  void tell(const TimelineEntry& entry) const {
    if (rank_->timeline) rank_->timeline->push_back(entry);
  }

 private:
  Rank* rank_ = nullptr;
  Mesh mesh_;
  std::vector<Parameter> parameters_;
  std::vector<Unit> units_;
  std::vector<Tensor> gradients_;  // being made
  MicroBatch micro_batch_;
  int step_ = 0;
};

}  // namespace shardsim
