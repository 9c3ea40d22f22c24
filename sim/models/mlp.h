// Mlp: a multi-layer perceptron written once against the device's ops: y = tanh(x W + b) per layer, the last one linear, and a
// mean-squared-error loss.
#pragma once
#include <functional>

#include "core/device.h"
#include "core/model.h"

namespace shardsim {

/// Fills x [rows, in] and y [rows, out] of a rank's micro-batch; leaves both empty without numerics.
using BatchSource = std::function<void(int step, int micro_batch, std::vector<float>& x, std::vector<float>& y)>;

class Mlp : public Model {
 public:
  struct Shape {
    std::vector<Dim> widths;  ///< in, hidden ..., out
    Dim rows;                 ///< of a micro-batch
    Dtype type;               ///< of parameters, activations and their gradients
    int micro_batches;        ///< per step
  };
  Mlp(Device&, Shape, BatchSource);

  int modules() const override { return int(layouts_.size()); }
  const Layout& layout(int module) const override { return layouts_[module]; }
  const std::vector<int>& visits() const override { return visits_; }
  const std::vector<ModuleNode>& tree() const override { return tree_; }
  void attach(ModuleHooks* hooks) override { hooks_ = hooks; }
  void begin_step(int step, Tensor scaler) override;
  void load(int step, int micro_batch) override;
  void forward(int module, Tensor params) override;
  void backward(int module, Tensor params, Tensor grads, bool accumulate) override;
  void end_step(std::vector<float>& loss) override;

 private:
  Held hold(Band, Dim rows, Dim cols, Dtype);
  Tensor weight(int module, Tensor flat) const { return flat.matrix(none, shape_.widths[module], shape_.widths[module + 1]); }
  Tensor bias(int module, Tensor flat) const;

  Device& device_;
  Shape shape_;
  BatchSource source_;
  std::vector<Layout> layouts_;
  std::vector<int> visits_;
  std::vector<ModuleNode> tree_{{"model", -1, {}}};  // the root, then a module per layer
  ModuleHooks* hooks_ = nullptr;
  std::vector<Held> inputs_;  // inputs_[m]: what module m was given; kept for its backward
  Held output_, target_, gradient_, loss_;
  Tensor scaler_;
  std::vector<float> x_, y_;
};

}  // namespace shardsim
