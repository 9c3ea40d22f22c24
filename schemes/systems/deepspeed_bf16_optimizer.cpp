// deepspeed_bf16_optimizer: a persistent fp32 gradient, its reduction in bf16, and the step.
#include "systems/deepspeed_bf16_optimizer.h"

namespace shardsim {

void DeepSpeedBf16Optimizer::make_bands() {
  if (knobs().precision.param != Dtype::bf16)
    refuse("grad_accum_dtype: at stage 1, fp32 is modelled beside bf16 parameters only; use None");
  check_types(Dtype::fp32);
  make_partitions(in_module_order());
  sum_ = zeros(Band::grad, borders()->back(), Dtype::fp32);
  grads_.resize(parameters().size());
}

void DeepSpeedBf16Optimizer::begin_micro_batch() {
  label(Verb::backward);
  for (const Tensor& grad : grads_)
    if (grad) device().launch(Lane::compute, Fill{grad, 0.f});
}

void DeepSpeedBf16Optimizer::gradient_ready(int p) {
  label(Verb::backward, p);
  const Tensor fresh = take_gradient(p);
  if (!grads_[p]) {
    grads_[p] = fresh;
    return;
  }
  device().launch(Lane::compute, Add{fresh, grads_[p]});
  device().free(Lane::compute, fresh);
}

/// update_hp_grads, and at the last micro-batch the engine's all-reduce: one flat tensor, whatever the size of buckets.
void DeepSpeedBf16Optimizer::end_backward() {
  for (int p = 0; p < int(grads_.size()); ++p) {
    label(Verb::backward, p);
    const Held wide(device(), Lane::compute, alloc(Lane::compute, Band::workspace, grads_[p].count(), Dtype::fp32));
    device().launch(Lane::compute, Copy{grads_[p], *wide});
    device().launch(Lane::compute, Add{*wide, sum_of(p)});
  }
  if (!micro_batch().last) return;
  label(Verb::all_reduce, 0);
  all_reduce(Lane::compute, sum_, true);
  tell({"backward is over", "all_reduce of the whole gradient, cast to the type of communication",
        sum_.count().charged() * bytes_of(knobs().precision.reduce), Lane::compute, "all gradients", "the cast copy"});
}

/// Gradients are complete on every rank: the norm needs no collective.
void DeepSpeedBf16Optimizer::update() {
  label(Verb::clip);
  const Held squares(device(), Lane::compute, zeros(Band::workspace, one, Dtype::fp32));
  for (int p = 0; p < int(grads_.size()); ++p) device().launch(Lane::compute, SumSquares{sum_of(p), *squares});
  const Tensor factor = update_factor(*squares);
  label(Verb::adam);
  update_partition(sum_.slice(partition_begin(), partition_size()), factor);
  publish_partition();
  if (factor) device().free(Lane::compute, factor);
  gather_parameters(Lane::compute);
  label(Verb::release);
  device().launch(Lane::compute, Fill{sum_, 0.f});
  for (Tensor& grad : grads_) {
    device().free(Lane::compute, grad);
    grad = {};
  }
}

}  // namespace shardsim
