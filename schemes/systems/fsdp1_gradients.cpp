// fsdp1: from the parameters' gradients to the flat one, its reduction, and the optimizer's step.
#include "systems/fsdp1.h"

namespace shardsim {

/// Parameters are views that split the flat one. What backward makes are tensors of their own, and split's backward joins them: for
/// a moment all of a unit's gradients exist twice.
void Fsdp1::complete_gradient(Handle& handle) {
  const Tensor fresh = alloc(Lane::compute, Band::grad, handle.count, types_.compute);
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < handle.parameters.size(); ++i) {
    const Tensor part = parts.emplace_back(take_gradient(handle.parameters[i]));
    device().launch(Lane::compute, Copy{part.slice(none, part.count()), fresh.slice(handle.begins[i], part.count()), i > 0});
  }
  for (const Tensor& part : parts) device().free(Lane::compute, part);
  if (!handle.grad) {
    handle.grad = fresh;
    return;
  }
  device().launch(Lane::compute, Add{fresh, handle.grad});
  device().free(Lane::compute, fresh);
}

Tensor Fsdp1::cast(Lane lane, Tensor from, Dtype type) const {
  const Tensor to = alloc(lane, from.in->band == Band::param ? Band::gathered : Band::grad, from.count(), type);
  device().launch(lane, Copy{from, to});
  return to;
}

/// Frees what is cast.
Tensor Fsdp1::converted(Lane lane, Tensor from, Dtype type) const {
  const Tensor to = cast(lane, from, type);
  device().free(lane, from);
  return to;
}

void Fsdp1::divide(Tensor x, double divisor) const {
  if (divisor > 1) device().launch(reduce_lane(), Scale{x, x, 1 / divisor, 0});
}

void Fsdp1::reduce_grad(int index) {
  Handle& handle = at(index);
  const Lane reduce = reduce_lane();
  label(sharded_ ? Verb::reduce_scatter : Verb::all_reduce, index);
  order(Lane::compute, reduce, Edge::gradient_before_reduction);
  const Tensor computed = handle.grad;
  const Tensor grad = computed.dtype() == types_.reduce ? computed : cast(reduce, computed, types_.reduce);
  handle.grad = {};
  sharded_ ? reduce_scatter(index, grad) : all_reduce(index, grad);
  if (grad.in != computed.in) device().free(reduce, computed);
}

/// Frees `grad`. Its padding, a copy, and the copies in other types live as long as the reduction.
void Fsdp1::reduce_scatter(int index, Tensor grad) {
  Handle& handle = at(index);
  const Lane reduce = reduce_lane();
  const Dim whole = handle.borders->back();
  Tensor padded = grad;
  if (whole != grad.count()) {
    padded = alloc(reduce, Band::grad, whole, types_.reduce);
    device().launch(reduce, Fill{padded, 0.f});
    device().launch(reduce, Copy{grad, padded.slice(none, grad.count())});
  }
  divide(padded, predivide_);
  Tensor shard = alloc(reduce, Band::grad, handle.shard.count(), types_.reduce);
  in_turn(reduce, [&] { fabric().reduce_scatter(reduce, mesh_.shards, padded, shard, Payload::data, handle.borders); });
  tell({in_words("post_backward", index), "reduce_scatter", padded.bytes(), reduce,
        "its flat gradient on compute, the collective before", "the flat gradient"});
  if (mesh_.replicas.size > 1) {
    label(Verb::all_reduce, index);
    fabric().all_reduce(reduce, mesh_.replicas, shard);
    tell({in_words("post_backward", index), "all_reduce over the replicas", shard.bytes(), reduce, "its reduce_scatter", ""});
  }
  divide(shard, postdivide_);
  if (types_.reduce != types_.original) shard = converted(reduce, shard, types_.original);
  if (handle.saved_grad_shard) {
    device().launch(reduce, Add{shard, handle.saved_grad_shard});
    device().free(reduce, shard);
  } else {
    handle.saved_grad_shard = shard;
  }
  if (padded.in != grad.in) device().free(reduce, padded);
  device().free(reduce, grad);
}

/// In place: NO_SHARD's gradient stays where it is, unless its type changes.
void Fsdp1::all_reduce(int index, Tensor grad) {
  const Lane reduce = reduce_lane();
  divide(grad, predivide_);
  fabric().all_reduce(reduce, mesh_.replicas, grad);
  tell({in_words("post_backward", index), "all_reduce", grad.bytes(), reduce, "its flat gradient on compute", ""});
  divide(grad, postdivide_);
  at(index).grad = grad;
  if (!keeps_low_precision_ && types_.reduce != types_.original) at(index).grad = converted(reduce, grad, types_.original);
}

void Fsdp1::update() {
  std::vector<AdamTensors> list;
  std::vector<Tensor> gradients;
  for (Handle& handle : handles_)
    for (const Slice& slice : handle.slices) {
      const Tensor own = handle.shard.slice(slice.at, slice.count);
      gradients.push_back(handle.reduced(sharded_).slice(slice.at, slice.count));
      list.push_back({slice.parameter, gradients.back(), own, slice.m, slice.v, own});
    }
  // FSDP's own clip_grad_norm_: the norm of the shards, then one number summed over them. ShardedGradScaler's found_inf goes with
  // it.
  const Tensor factor = sharded_ ? update_factor(gradients, mesh_.shards) : update_factor(gradients);
  launch_adam(list, factor);
  // zero_grad(): the gradients are the reduce stream's memory, and Adam reads them.
  device().wait(reduce_lane(), device().record(Lane::compute));
  for (Handle& handle : handles_) {
    device().free(reduce_lane(), handle.reduced(sharded_));
    handle.reduced(sharded_) = {};
  }
  if (factor) device().free(Lane::compute, factor);
}

}  // namespace shardsim
