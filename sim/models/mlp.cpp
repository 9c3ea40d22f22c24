// Mlp: the ops of its forward and backward. Activations live from the forward that makes them to the backward that uses them last.
#include "models/mlp.h"

#include <utility>

namespace shardsim {
namespace {
constexpr Lane lane = Lane::compute;
}

Mlp::Mlp(Device& device, Shape shape, BatchSource source)
    : device_(device), shape_(std::move(shape)), source_(std::move(source)), inputs_(shape_.widths.size() - 1) {
  for (std::size_t m = 0; m + 1 < shape_.widths.size(); ++m) {
    const std::string name = "layer" + std::to_string(m);
    visits_.push_back(int(m));
    tree_.push_back({name, 0, {2 * int(m), 2 * int(m) + 1}});
    layouts_.push_back({{name + ".weight", shape_.widths[m], shape_.widths[m + 1]}, {name + ".bias", one, shape_.widths[m + 1]}});
  }
}

Held Mlp::hold(Band band, Dim rows, Dim cols, Dtype type) { return {device_, lane, device_.alloc(lane, band, rows, cols, type)}; }

Tensor Mlp::bias(int module, Tensor flat) const {
  return flat.slice(shape_.widths[module] * shape_.widths[module + 1], shape_.widths[module + 1]);
}

void Mlp::begin_step(int, Tensor scaler) {
  scaler_ = scaler;
  loss_ = hold(Band::workspace, one, one, Dtype::fp32);
  device_.launch(lane, Fill{*loss_, 0.f});
}

void Mlp::load(int step, int micro_batch) {
  if (source_) source_(step, micro_batch, x_, y_);
  inputs_[0] = hold(Band::activation, shape_.rows, shape_.widths.front(), shape_.type);
  target_ = hold(Band::activation, shape_.rows, shape_.widths.back(), shape_.type);
  device_.upload(lane, *inputs_[0], {&x_, none, inputs_[0]->count()});
  device_.upload(lane, *target_, {&y_, none, target_->count()});
}

void Mlp::forward(int m, Tensor params) {
  if (hooks_ && m == 0) hooks_->pre_forward(0);
  if (hooks_) hooks_->pre_forward(m + 1);
  Held y = hold(Band::activation, shape_.rows, shape_.widths[m + 1], shape_.type);
  device_.launch(lane, Matmul{*inputs_[m], hooks_ ? hooks_->parameter(2 * m) : weight(m, params), *y, false, false, false});
  device_.launch(lane, AddBias{hooks_ ? hooks_->parameter(2 * m + 1) : bias(m, params), *y});
  if (hooks_) hooks_->post_forward(m + 1);
  if (m + 1 < modules()) {
    device_.launch(lane, Tanh{*y, *y});
    inputs_[m + 1] = std::move(y);
    return;
  }
  gradient_ = hold(Band::workspace, shape_.rows, shape_.widths.back(), shape_.type);
  device_.launch(lane, MseLoss{*y, *target_, *gradient_, *loss_, scaler_, shape_.micro_batches});
  output_ = std::move(y);
  if (hooks_) hooks_->post_forward(0);
}

void Mlp::backward(int m, Tensor params, Tensor grads, bool accumulate) {
  if (m + 1 == modules()) output_.reset(), target_.reset();
  if (hooks_ && m + 1 == modules()) hooks_->pre_backward(0);
  if (hooks_) hooks_->pre_backward(m + 1);
  Held dy = std::move(gradient_);
  if (m + 1 < modules()) device_.launch(lane, TanhBackward{*inputs_[m + 1], *dy});
  device_.launch(lane, Matmul{*inputs_[m], *dy, hooks_ ? hooks_->gradient(2 * m) : weight(m, grads), true, false, accumulate});
  if (hooks_) hooks_->gradient_ready(2 * m);
  device_.launch(lane, SumRows{*dy, hooks_ ? hooks_->gradient(2 * m + 1) : bias(m, grads), accumulate});
  if (hooks_) hooks_->gradient_ready(2 * m + 1);
  if (m > 0) {
    gradient_ = hold(Band::workspace, shape_.rows, shape_.widths[m], shape_.type);
    device_.launch(lane, Matmul{*dy, hooks_ ? hooks_->parameter(2 * m) : weight(m, params), *gradient_, false, true, false});
  }
  if (hooks_) hooks_->post_backward(m + 1);
  if (m + 1 < modules()) inputs_[m + 1].reset();
  if (m > 0) return;
  inputs_[0].reset();
  if (hooks_) hooks_->post_backward(0);
}

void Mlp::end_step(std::vector<float>& loss) {
  device_.download(lane, *loss_, loss);
  loss_.reset();
}

}  // namespace shardsim
