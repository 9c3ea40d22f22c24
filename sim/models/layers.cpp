// Layers: linear, norm and dropout.
#include "models/layers.h"

#include "core/draw.h"

namespace shardsim {

int Weights::add(const std::string& name, Dim rows, Dim cols) {
  begins_.push_back(count_of(layout_));
  layout_.push_back({name, rows, cols});
  return int(layout_.size()) - 1;
}

Tensor Weights::operator()(Tensor flat, int at) const {
  if (at < 0) return {};
  return flat.matrix(begins_[at], layout_[at].rows, layout_[at].cols);
}

Held Layers::kept(Dim rows, Dim cols, Dtype type) const {
  return {device, Lane::compute, device.alloc(Lane::compute, Band::activation, rows, cols, type)};
}

Held Layers::temporary(Dim rows, Dim cols, Dtype type) const {
  return {device, Lane::compute, device.alloc(Lane::compute, Band::workspace, rows, cols, type)};
}

Held Layers::dropout(int module, double share, int place, Tensor x, Tensor y) const {
  Held mask;
  enter(module, Pass::forward);
  if (share > 0) {
    mask = kept(x.rows, x.cols, Dtype::uint8);
    launch(Dropout{x, *mask, y, share, drawn(micro_batch_key, std::uint64_t(place))});
  }
  leave(module, Pass::forward);
  return mask;
}

Held Layers::dropout_backward(int module, double share, Held mask, Tensor dy) const {
  Held dx;
  enter(module, Pass::backward);
  if (mask) {
    dx = temporary(dy.rows, dy.cols);
    launch(DropoutBackward{dy, *mask, *dx, share});
  }
  leave(module, Pass::backward);
  return dx;
}

LinearAt Layers::add_linear(Weights& weights, const std::string& name, Dim in, Dim out) const {
  const int module = tree.add(name);
  tree.own(module, weights.next());
  const int weight = weights.add(name + ".weight", in, out);
  if (!sizes.biases) return {weight, -1, module};
  tree.own(module, weights.next());
  return {weight, weights.add(name + ".bias", one, out), module};
}

NormAt Layers::add_norm(Weights& weights, const std::string& name) const {
  const int module = tree.add(name);
  tree.own(module, weights.next());
  const int gain = weights.add(name + ".weight", one, sizes.hidden);
  if (sizes.is_llama()) return {gain, -1, module};
  tree.own(module, weights.next());
  return {gain, weights.add(name + ".bias", one, sizes.hidden), module};
}

Held Layers::linear(const Params& params, LinearAt at, Tensor x, bool keeps) const {
  enter(at.module, Pass::forward);
  const Tensor weight = params[at.weight];
  Held y = keeps ? kept(x.rows, weight.cols) : temporary(x.rows, weight.cols);
  launch(Matmul{x, weight, *y, false, false, false, params[at.bias]});
  leave(at.module, Pass::forward);
  return y;
}

Held Layers::linear_backward(const Params& params, const Grads& grads, LinearAt at, Tensor x, Tensor dy, bool accumulate) const {
  enter(at.module, Pass::backward);
  Held dx = temporary(x.rows, x.cols);
  launch(Matmul{dy, params[at.weight], *dx, false, true, false});
  launch(Matmul{x, dy, grads[at.weight], true, false, accumulate});
  if (at.bias >= 0) launch(SumRows{dy, grads[at.bias], accumulate});
  grads.ready(at.bias);  // first: between the product and the weight stands a transposition in PyTorch's graph
  grads.ready(at.weight);
  leave(at.module, Pass::backward);
  return dx;
}

NormKept Layers::norm(const Params& params, NormAt at, Tensor x) const {
  NormKept norm{kept(x.rows, x.cols), kept(x.rows, sizes.is_llama() ? one : 2 * one, Dtype::fp32)};
  enter(at.module, Pass::forward);
  launch(Norm{x, params[at.gain], params[at.bias], *norm.y, *norm.stats, float(sizes.norm_eps)});
  leave(at.module, Pass::forward);
  return norm;
}

Held Layers::norm_backward(const Params& params, const Grads& grads, NormAt at, Tensor x, const NormKept& norm, Tensor dy,
                           bool accumulate) const {
  enter(at.module, Pass::backward);
  Held dx = temporary(x.rows, x.cols);
  launch(NormBackward{x, params[at.gain], *norm.stats, dy, *dx, grads[at.gain], grads[at.bias], accumulate});
  grads.ready(at.gain);
  grads.ready(at.bias);
  leave(at.module, Pass::backward);
  return dx;
}

}  // namespace shardsim
