// Model: a rank's model as a row of modules. Each has parameters and a forward and a backward that launch ops on the device.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace shardsim {

/// A named matrix inside a module's flat parameters.
struct Weight {
  std::string name;
  Dim rows, cols;
};
/// All of a module's parameters, in order. One layout gives count, views and names.
using Layout = std::vector<Weight>;
inline Dim count_of(const Layout& layout) {
  Dim sum;
  for (const Weight& weight : layout) sum = sum + weight.rows * weight.cols;
  return sum;
}

/// A module as a framework sees it: a leaf with parameters, or a container that calls others.
struct ModuleNode {
  std::string name;
  int parent = -1;              ///< position in the tree; -1: the root
  std::vector<int> parameters;  ///< its own, by position among all weights in model order
};

/// The sizes by which a system plans the activations of a GPT-2 before its first pass.
struct Gpt2Sizes {
  int layers;
  Dim sequences, tokens, hidden, heads, vocab;  ///< tokens: of all sequences of a micro-batch
};

/// What a framework's hooks see of a model's passes, and where a model that is hooked finds its parameters. Called in program
/// order; what is enqueued on the compute lane in a hook stands exactly there.
class ModuleHooks {
 public:
  virtual ~ModuleHooks() = default;
  virtual void pre_forward(int module) = 0;
  virtual void post_forward(int module) = 0;
  virtual void pre_backward(int module) = 0;
  virtual void post_backward(int module) = 0;
  /// The full parameter as a matrix, readable on the compute lane now.
  virtual Tensor parameter(int parameter) = 0;
  /// Where the gradient of this backward pass is written: a fresh matrix, or what an earlier use has begun.
  virtual Tensor gradient(int parameter) = 0;
  /// All uses have added their part: autograd's AccumulateGrad runs.
  virtual void gradient_ready(int parameter) = 0;
};

/// Rank-local. Everything runs on the compute lane; what a forward keeps for its backward is the model's own memory.
///
/// A pass is a row of *visits* to modules. Most modules are visited once; one whose weights serve twice (a tied embedding) is
/// visited twice, and its gradient is complete after both.
class Model {
 public:
  virtual ~Model() = default;
  virtual int modules() const = 0;
  virtual const Layout& layout(int module) const = 0;
  /// The module of each visit, in the order of a forward pass.
  virtual const std::vector<int>& visits() const = 0;

  /// The modules as a framework would call them, parents before their children; empty if the model cannot be hooked.
  virtual const std::vector<ModuleNode>& tree() const {
    static const std::vector<ModuleNode> none_at_all;
    return none_at_all;
  }
  /// What a GPT-2 with a tied head says; other models say nothing.
  virtual std::optional<Gpt2Sizes> gpt2() const { return {}; }
  /// From now on parameters and gradients come from the hooks; `params` and `grads` of the passes are ignored. The hooks have to
  /// outlive the model's passes.
  virtual void attach(ModuleHooks*) {}

  /// Called by the scheme's base, in this order, once per step: begin_step, then for each micro-batch load, the forwards of all
  /// visits in order and the backwards in reverse order; then end_step.
  /// The loss's gradient is multiplied by the first element of `scaler`, if there is one.
  virtual void begin_step(int step, Tensor scaler) = 0;
  virtual void load(int step, int micro_batch) = 0;
  /// `params` are those of the visit's module.
  virtual void forward(int visit, Tensor params) = 0;
  /// Writes the gradient of the visit's module (mean over this rank's micro-batch), or adds it if `accumulate`. Of several visits,
  /// all but the first of a pass add what the first has written.
  virtual void backward(int visit, Tensor params, Tensor grads, bool accumulate) = 0;
  /// `loss` receives one float, this rank's loss: valid after the device's next synchronize.
  virtual void end_step(std::vector<float>& loss) = 0;
};

}  // namespace shardsim
