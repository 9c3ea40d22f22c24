// HookedScheme: the passes of a step, and what every system needs of them.
#include "core/hooked_scheme.h"

#include "core/error.h"

namespace shardsim {

void HookedScheme::bind(Rank& rank) {
  rank_ = &rank;
  mesh_ = Mesh::of(rank.index, rank.world, rank.world);
  Model& model = rank.model;
  if (model.tree().empty()) throw IllegalStep("this model has no modules to hook");
  const std::string name = "scheme '" + rank.scheme + "': ";
  if (rank.knobs.loss_scale.on)
    throw ScenarioError(name + "precision.loss_scale: loss scaling is not modelled for real systems; use bf16 or fp32");
  if (rank.knobs.decays_matrices_only && rank.knobs.adam.weight_decay != 0)
    throw ScenarioError(name + "optimizer.weight_decay_on: matrices is not modelled for real systems; write all");
  Dim begin;
  for (int module = 0; module < model.modules(); ++module)
    for (const Weight& weight : model.layout(module)) {
      parameters_.push_back({weight.name, weight.rows, weight.cols, begin, -1});
      units_.push_back({int(units_.size()), int(units_.size()) + 1, begin, weight.rows * weight.cols, weight.rows * weight.cols});
      begin = begin + weight.rows * weight.cols;
    }
  for (int module = 0; module < int(modules().size()); ++module)
    for (const int parameter : modules()[module].parameters)
      if (parameters_[parameter].module < 0) parameters_[parameter].module = module;  // a tied one is its first user's
  gradients_.resize(parameters_.size());
  model.attach(this);
  make_bands();
  rank.device.synchronize();  // a framework's initialisation is over before the first step begins
}

void HookedScheme::run_step(int step, StepReport& report) {
  step_ = step;
  Model& model = rank_->model;
  const int visits = int(model.visits().size());
  label(Verb::load);
  device().begin_step(step);
  model.begin_step(step, {});
  for (int index = 0; index < knobs().accumulation; ++index) {
    micro_batch_ = {index, index == 0, index + 1 == knobs().accumulation};
    label(Verb::load);
    model.load(step, index);
    begin_micro_batch();
    for (int visit = 0; visit < visits; ++visit) {
      label(Verb::forward);
      model.forward(visit, {});
    }
    for (int visit = visits - 1; visit >= 0; --visit) {
      label(Verb::backward);
      model.backward(visit, {}, {}, accumulates());
    }
    end_backward();
  }
  label(Verb::adam);
  update();
  label(Verb::fetch);
  model.end_step(report.loss);
  if (knobs().step_barrier) device().synchronize();
}

std::vector<ThetaPiece> HookedScheme::theta() {
  std::vector<ThetaPiece> pieces;
  label(Verb::fetch);
  append_theta(pieces);
  device().synchronize();
  return pieces;
}

Tensor HookedScheme::gradient(int parameter) {
  Tensor& made = gradients_[parameter];
  const Parameter& p = parameters_[parameter];
  if (!made) made = device().alloc(Lane::compute, Band::grad, p.rows, p.cols, knobs().precision.grad);
  return made;
}

Tensor HookedScheme::take_gradient(int parameter) {
  const Tensor taken = gradients_[parameter];
  gradients_[parameter] = {};
  return taken;
}

void HookedScheme::upload_theta0(Tensor to, int parameter, Dim begin, Dim count) const {
  device().upload(Lane::compute, to, HostView{&rank_->theta0, parameters_[parameter].begin + begin, count});
}

Tensor HookedScheme::factor_of_clipping(Tensor squares) const {
  if (knobs().clip <= 0) return {};
  const Tensor factor = alloc(Lane::compute, Band::workspace, Dim(2, 2), Dtype::fp32);
  device().launch(Lane::compute, ClipFactor{squares, factor, {}, knobs().clip, unscale(), {}});
  return factor;
}

void HookedScheme::launch_adam(Tensor grad, Tensor factor, Tensor master, Tensor m, Tensor v, Tensor param) const {
  AdamRule rule = knobs().adam;
  rule.lr = float(double(rule.lr) * knobs().schedule.at(step_));
  device().launch(Lane::compute, Adam{grad, factor, {}, master, m, v, param, rule, unscale(), step_ + 1});
}

}  // namespace shardsim
