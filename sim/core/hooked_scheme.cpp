// HookedScheme: the passes of a step, and what every system needs of them.
#include "core/hooked_scheme.h"

#include "core/error.h"

namespace shardsim {

/// Whatever a hook does in whose name, the pass goes on in its own.
class HookedScheme::Hooks final : public ModuleHooks {
 public:
  explicit Hooks(HookedScheme& scheme) : scheme_(scheme) {}
  void pre_forward(int module) override {
    keep([&] { scheme_.pre_forward(module); });
  }
  void post_forward(int module) override {
    keep([&] { scheme_.post_forward(module); });
  }
  void pre_backward(int module) override {
    keep([&] { scheme_.pre_backward(module); });
  }
  void post_backward(int module) override {
    keep([&] { scheme_.post_backward(module); });
  }
  void gradient_ready(int parameter) override {
    keep([&] { scheme_.gradient_ready(parameter); });
  }
  Tensor parameter(int parameter) override { return scheme_.parameter(parameter); }
  Tensor gradient(int parameter) override { return scheme_.gradient(parameter); }

 private:
  template <class Hook>
  void keep(const Hook& hook) {
    const Label label = scheme_.device().label();
    hook();
    scheme_.device().label(label.verb, label.unit);
  }
  HookedScheme& scheme_;
};

void HookedScheme::bind(Rank& rank) {
  rank_ = &rank;
  mesh_ = Mesh::of(rank.index, rank.world, rank.world);
  Model& model = rank.model;
  if (model.tree().empty()) throw IllegalStep("this model has no modules to hook");
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
  hooks_ = std::make_shared<Hooks>(*this);
  model.attach(hooks_.get());
  label(Verb::bind);
  if (knobs().loss_scale.on) {
    scaler_ = alloc(Lane::compute, Band::workspace, Dim(3, 3), Dtype::fp32);
    const std::vector<float> first{knobs().loss_scale.initial, 0.f, 0.f};
    device().upload(Lane::compute, scaler_, HostView{&first, none, Dim(3, 3)});
  }
  make_bands();
  rank.device.synchronize();  // a framework's initialisation is over before the first step begins
}

void HookedScheme::run_step(int step, StepReport& report) {
  step_ = step;
  Model& model = rank_->model;
  const int visits = int(model.visits().size());
  label(Verb::load);
  device().begin_step(step);
  model.begin_step(step, scaler_);
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
  if (scaler_) device().download(Lane::compute, scaler_, report.scaler);
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

void HookedScheme::refuse(const std::string& why) const { throw ScenarioError("scheme '" + rank().scheme + "': " + why); }

Tensor HookedScheme::zeros(Band band, Dim count, Dtype type, Place place) const {
  const Tensor made = alloc(Lane::compute, band, count, type, place);
  device().upload(Lane::compute, made, HostView{&rank_->theta0, none, none});
  return made;
}

void HookedScheme::upload_theta0(Tensor to, int parameter, Dim begin, Dim count) const {
  device().upload(Lane::compute, to, HostView{&rank_->theta0, parameters_[parameter].begin + begin, count});
}

Tensor HookedScheme::update_factor(Tensor squares) const {
  if (!needs_norm()) return {};
  const Tensor factor = alloc(Lane::compute, Band::workspace, Dim(2, 2), Dtype::fp32);
  device().launch(Lane::compute, ClipFactor{squares, factor, scaler_, knobs().clip, unscale(), knobs().loss_scale});
  if (scaler_) device().synchronize();
  return factor;
}

Tensor HookedScheme::update_factor(const std::vector<Tensor>& gradients, Group parts) const {
  if (!needs_norm()) return {};
  label(Verb::clip);
  const Held squares(device(), Lane::compute, alloc(Lane::compute, Band::workspace, one, Dtype::fp32));
  device().launch(Lane::compute, Fill{*squares, 0.f});
  for (const Tensor& gradient : gradients) device().launch(Lane::compute, SumSquares{gradient, *squares});
  if (parts.size > 1) {
    fabric().all_reduce(Lane::compute, parts, *squares, Payload::control);
    tell({"the update begins", "all_reduce of the squared norm", squares->bytes(), Lane::compute, "all reductions", ""});
  }
  return update_factor(*squares);
}

void HookedScheme::launch_adam(const std::vector<AdamTensors>& list, Tensor factor) const {
  AdamRule rule = knobs().adam;
  rule.lr = float(double(rule.lr) * knobs().schedule.at(step_));
  if (!knobs().decays_matrices_only) return launch_adam(list, factor, rule);
  std::vector<AdamTensors> matrices, others;
  for (const AdamTensors& of : list) {
    const Parameter& p = parameters_[std::size_t(of.parameter)];
    (p.rows.charged() > 1 && p.cols.charged() > 1 ? matrices : others).push_back(of);
  }
  launch_adam(matrices, factor, rule);
  rule.weight_decay = 0;
  launch_adam(others, factor, rule);
}

void HookedScheme::launch_adam(const std::vector<AdamTensors>& list, Tensor factor, AdamRule rule) const {
  std::vector<Held> denominators;
  const auto make_denominator = [&](const AdamTensors& of) {
    label(Verb::adam, of.parameter);
    denominators.emplace_back(device(), Lane::compute, alloc(Lane::compute, Band::workspace, of.v.count(), Dtype::fp32));
  };
  if (rule.passes == AdamPasses::foreach)  // all denominators are computed before the first is used
    for (const AdamTensors& of : list) make_denominator(of);
  bool joins = false;
  for (const AdamTensors& of : list) {
    if (rule.passes == AdamPasses::for_loop) make_denominator(of);
    label(Verb::adam, of.parameter);
    device().launch(Lane::compute,
                    Adam{of.grad, factor, scaler_, of.master, of.m, of.v, of.param, rule, unscale(), updates_before() + 1, joins});
    if (rule.passes == AdamPasses::for_loop) denominators.clear();
    else joins = true;
  }
}

}  // namespace shardsim
