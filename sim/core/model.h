// Model: a rank's model as a row of modules. Each has parameters and a forward and a backward that launch ops on the device.
#pragma once
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
