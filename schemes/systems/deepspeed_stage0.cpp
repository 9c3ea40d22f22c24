// deepspeed_stage0: buckets after backward, and an update tensor by tensor.
#include "systems/deepspeed_stage0.h"

namespace shardsim {
namespace {

constexpr std::int64_t bucket_elements = 500000000;  // engine.py: MEMORY_OPT_ALLREDUCE_SIZE

}  // namespace

void DeepSpeedStage0::make_bands() {
  check_types();
  order_ = in_module_order();
  states_.resize(parameters().size());
  for (const int p : order_) {
    State& s = states_[p];
    const Dim count = parameters()[p].count();
    label(Verb::bind, p);
    s.param = s.master = alloc(Lane::compute, Band::param, count, knobs().precision.param);
    upload_theta0(s.param, p, none, count);
    if (knobs().precision.has_master()) {
      s.master = alloc(Lane::compute, Band::opt, count, Dtype::fp32);
      upload_theta0(s.master, p, none, count);
    }
    s.m = zeros(Band::opt, count, Dtype::fp32), s.v = zeros(Band::opt, count, Dtype::fp32);
  }
}

Tensor DeepSpeedStage0::parameter(int p) { return states_[p].param.matrix(none, parameters()[p].rows, parameters()[p].cols); }

void DeepSpeedStage0::gradient_ready(int p) {
  State& s = states_[p];
  label(Verb::backward, p);
  const Tensor fresh = take_gradient(p);
  if (!s.grad) {
    s.grad = fresh;
    return;
  }
  device().launch(Lane::compute, Add{fresh, s.grad});
  device().free(Lane::compute, fresh);
}

void DeepSpeedStage0::end_backward() {
  if (!micro_batch().last) return;
  std::vector<int> bucket;
  std::int64_t elements = 0;
  int number = 0;
  for (const int p : order_) {
    bucket.push_back(p);
    elements += parameters()[p].count().charged();
    if (elements <= bucket_elements && p != order_.back()) continue;
    reduce(bucket, number++);
    bucket.clear(), elements = 0;
  }
}

void DeepSpeedStage0::reduce(const std::vector<int>& bucket, int number) {
  label(Verb::all_reduce, number);
  std::vector<Tensor> views;
  for (const int p : bucket) views.push_back(states_[p].grad);
  const bool copies = bucket.size() > 1;  // flattening one tensor only changes its shape
  const Tensor flat = copies ? flattened(Lane::compute, Band::bucket, views) : views.front();
  all_reduce(Lane::compute, flat, true);
  tell({"backward is over", "all_reduce of bucket " + std::to_string(number), flat.bytes(), Lane::compute, "all gradients", ""});
  if (!copies) return;
  Dim at;
  for (const Tensor& view : views) {
    device().launch(Lane::compute, Copy{flat.slice(at, view.count()), view});
    at = at + view.count();
  }
  device().free(Lane::compute, flat);
}

void DeepSpeedStage0::check_overflow() {
  const Held found(device(), Lane::compute, zeros(Band::workspace, one, Dtype::fp32));
  for (const int p : order_) {
    label(Verb::clip, p);
    device().launch(Lane::compute, SumSquares{states_[p].grad, *found});
    device().synchronize();
  }
  tell({"step", "the host reads whether a gradient overflowed, tensor by tensor", 0, Lane::compute, "the device, each time", ""});
}

/// Gradients are complete on every rank: the norm needs no collective.
Tensor DeepSpeedStage0::squares_of_gradients() {
  label(Verb::clip);
  const Tensor squares = zeros(Band::workspace, one, Dtype::fp32);
  for (const int p : order_) device().launch(Lane::compute, SumSquares{states_[p].grad, squares});
  return squares;
}

void DeepSpeedStage0::update() {
  const bool has_master = knobs().precision.has_master();
  Tensor squares, factor;
  if (has_master) check_overflow();
  if (has_master || needs_norm()) {
    squares = squares_of_gradients();
    factor = update_factor(squares);
  }
  for (const int p : order_) {
    State& s = states_[p];
    label(Verb::adam, p);
    s.wide = s.grad;
    if (!has_master) continue;
    s.wide = alloc(Lane::compute, Band::grad, s.grad.count(), Dtype::fp32);
    device().launch(Lane::compute, Copy{s.grad, s.wide});
  }
  if (has_master)  // unscale_and_clip_grads multiplies even by 1; a factor that is not 1 is Adam's here
    for (const int p : order_) scale(Lane::compute, states_[p].wide, 1);
  std::vector<AdamTensors> list;
  for (const int p : order_) list.push_back({p, states_[p].wide, states_[p].master, states_[p].m, states_[p].v, states_[p].master});
  launch_adam(list, factor);
  for (const int p : order_) {
    State& s = states_[p];
    label(Verb::adam, p);
    if (has_master) {
      device().free(Lane::compute, s.wide);
      device().launch(Lane::compute, Copy{s.master, s.param});
    }
  }
  for (const int p : order_) {  // zero_grad(set_to_none=True)
    device().free(Lane::compute, states_[p].grad);
    states_[p].grad = states_[p].wide = {};
  }
  if (factor) device().free(Lane::compute, factor);
  if (squares) device().free(Lane::compute, squares);
}

void DeepSpeedStage0::append_theta(std::vector<ThetaPiece>& pieces) {
  pieces.resize(states_.size());
  for (int p = 0; p < int(states_.size()); ++p) {
    pieces[p] = {p, none, parameters()[p].count(), {}};
    device().download(Lane::compute, states_[p].master, pieces[p].values);
  }
}

}  // namespace shardsim
