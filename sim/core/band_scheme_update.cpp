// BandScheme's update: the global norm, loss scaling's verdict, and Adam on what a rank owns.
#include "core/band_scheme.h"

namespace shardsim {

void BandScheme::clip() {
  if (rank_->knobs.clip <= 0 && !rank_->knobs.loss_scale.on) return;
  Device& device = rank_->device;
  label(Verb::clip, -1);
  const int n = rank_->world, parts = n / mesh_.shards.size, first = mesh_.shards.me * parts;
  const Held squares(device, Lane::compute, device.alloc(Lane::compute, Band::workspace, one, Dim(n, n), Dtype::fp32));
  factor_ = device.alloc(Lane::compute, Band::workspace, one, Dim(2, 2), Dtype::fp32);
  const Tensor all_squares = squares->slice(none, Dim(n, n));
  device.launch(Lane::compute, Fill{*squares, 0.f});
  auto slots = [&](int begin, int count) { return squares->slice(Dim(begin, begin), Dim(count, count)); };
  for (int u = int(cuts_.size()) - 1; u >= 0; --u) {
    label(Verb::clip, u);
    if (!states_[u].reduced) illegal(Verb::clip, u, "the gradient was never reduced");
    after(states_[u].grad_ready, Lane::compute, Edge::reduction_before_update);
    // The same N partial sums in every scheme, of N equal parts of a unit: each rank makes those of the slice that it owns.
    const Dim part = cuts_[u].padded.over(n);
    for (int p = 0; p < parts; ++p)
      device.launch(Lane::compute, SumSquares{own_grad(u).slice(p * part, part), slots(first + p, 1)});
  }
  label(Verb::clip, -1);
  if (parts < n) rank_->fabric.all_gather(Lane::compute, mesh_.shards, slots(first, parts), all_squares, Payload::control);
  device.launch(Lane::compute, ClipFactor{all_squares, factor_, scaler_, rank_->knobs.clip, unscale(), rank_->knobs.loss_scale});
}

/// Adam on what this rank owns of `count` parameters from `begin` on.
void BandScheme::launch_adam(int u, Dim begin, Dim count, bool decays) {
  const State& s = states_[u];
  const bool has_master = rank_->knobs.precision.has_master();
  const Slice own = owned(u);
  const Dim moments = has_master ? own.count : none;
  AdamRule rule = rank_->knobs.adam;
  rule.lr = float(double(rule.lr) * rank_->knobs.schedule.at(step_));
  if (!decays) rule.weight_decay = 0;
  const auto [from, size] = overlap(own.begin, own.count, begin, count);
  auto piece = [&, at = from - own.begin, n = size](const Tensor& of, Dim first) { return of.slice(first + at, n); };
  const Tensor grad = piece(own_grad(u), none), param = piece(own_param(u), none);
  Device& device = rank_->device;
  Held temporary;
  if (rule.passes == AdamPasses::for_loop)
    temporary = Held(device, Lane::compute, device.alloc(Lane::compute, Band::workspace, one, size, Dtype::fp32));
  device.launch(Lane::compute, Adam{grad, factor_, scaler_, has_master ? piece(s.opt, none) : param, piece(s.opt, moments),
                                    piece(s.opt, moments + own.count), param, rule, unscale(), step_ + 1});
}

/// One launch, or one per weight where they differ: a slice may begin and end anywhere in the unit's weights.
void BandScheme::launch_adam(int u) {
  const bool only_matrices = rank_->knobs.decays_matrices_only;
  if (!only_matrices && rank_->knobs.adam.passes != AdamPasses::for_loop) return launch_adam(u, none, cuts_[u].padded, true);
  Dim at;
  for (int m = cuts_[u].first; m < cuts_[u].last; ++m)
    for (const Weight& weight : rank_->model.layout(m)) {
      const bool is_matrix = weight.rows.charged() > 1 && weight.cols.charged() > 1;
      launch_adam(u, at, weight.rows * weight.cols, is_matrix || !only_matrices);
      at = at + weight.rows * weight.cols;
    }
  launch_adam(u, at, cuts_[u].padded - at, !only_matrices);
}

void BandScheme::adam() {
  Device& device = rank_->device;
  label(Verb::adam, -1);
  Held temporary;  // foreach walks all tensors at once, so its temporary is one of all
  if (rank_->knobs.adam.passes == AdamPasses::foreach) {
    Dim all;
    for (int u = 0; u < int(cuts_.size()); ++u) all = all + owned(u).count;
    temporary = Held(device, Lane::compute, device.alloc(Lane::compute, Band::workspace, one, all, Dtype::fp32));
  }
  for (int u = int(cuts_.size()) - 1; u >= 0; --u) {
    label(Verb::adam, u);
    State& s = states_[u];
    if (!s.reduced) {
      const std::string remedy = shard().empty() || s.scattered ? "all_reduce(u)" : "reduce_scatter(u)";
      illegal(Verb::adam, u, "the gradient was never reduced over all ranks; call " + remedy + " after backward(u)");
    }
    after(s.grad_ready, Lane::compute, Edge::reduction_before_update);
    launch_adam(u);
    if (!rank_->knobs.grads_resident) {
      device.free(Lane::compute, s.grad);
      s.grad = {};
    }
    s.param_ready = device.record(Lane::compute);
    s.grad_ready = {};
    s.scattered = s.reduced = false;
    s.published = !shard().has(Band::opt) || shard().has(Band::param);
  }
  if (factor_) device.free(Lane::compute, factor_);
  factor_ = {};
  updated_ = true;
}

}  // namespace shardsim
