// deepspeed_stage: flattening, the all-reduce with its divisions, and the update.
//
// Source: DeepSpeed 0.19.2, runtime/engine.py (allreduce_bucket) and runtime/zero/stage_1_and_2.py (allreduce_bucket,
// gradient_reduction_w_predivide).
#include "systems/deepspeed_stage.h"

namespace shardsim {

DeepSpeedStage::DeepSpeedStage(const Options& options)
    : prescales_(options.boolean("prescale_gradients")),
      predivide_(options.number("gradient_predivide_factor")),
      accumulation_type_(options.text("grad_accum_dtype")) {}

void DeepSpeedStage::check_types(Dtype sums) const {
  const Precision& precision = knobs().precision;
  if (precision.grad != precision.param)
    refuse("DeepSpeed's gradients have the parameters' type, as autograd makes them; leave precision.grad out");
  if (precision.param != Dtype::fp32 && !precision.master) refuse("DeepSpeed keeps fp32 masters; use precision.master: fp32");
  if (knobs().decays_matrices_only && knobs().adam.weight_decay != 0)
    refuse(
        "optimizer.weight_decay_on: matrices makes two parameter groups, each with partitions and buckets of "
        "its own, which is not modelled; write all");
  if (accumulation_type_ != "None" && accumulation_type_ != shardsim::name_of(sums))
    refuse("grad_accum_dtype: of other types than the model's, only fp32 at stage 1 is modelled; use None");
}

std::vector<int> DeepSpeedStage::in_module_order() const {
  std::vector<int> order;
  std::vector<bool> seen(parameters().size());
  for (const ModuleNode& module : modules())
    for (const int p : module.parameters) {
      if (!seen[p]) order.push_back(p);
      seen[p] = true;
    }
  return order;
}

Tensor DeepSpeedStage::flattened(Lane lane, Band band, const std::vector<Tensor>& views) const {
  Dim count, at;
  for (const Tensor& view : views) count = count + view.count();
  const Tensor flat = alloc(lane, band, count, views.front().dtype());
  for (const Tensor& view : views) {
    device().launch(lane, Copy{view, flat.slice(at, view.count()), at.charged() > 0});  // torch.cat is one kernel
    at = at + view.count();
  }
  return flat;
}

template <class Communicate>
void DeepSpeedStage::in_type_of_communication(Lane lane, Tensor buffer, const Communicate& communicate) const {
  const Dtype type = knobs().precision.reduce;
  if (type == buffer.dtype()) return communicate(buffer);
  const Held sent(device(), lane, alloc(lane, Band::bucket, buffer.count(), type));
  device().launch(lane, Copy{buffer, *sent});
  communicate(*sent);
  device().launch(lane, Copy{*sent, buffer});
}

void DeepSpeedStage::all_reduce(Lane lane, Tensor buffer, bool divides) const {
  const double world = rank().world;
  in_type_of_communication(lane, buffer, [&](Tensor sent) {
    if (divides && prescales_) scale(lane, sent, 1 / world);
    if (divides && !prescales_ && predivide_ != 1) scale(lane, sent, 1 / predivide_);
    fabric().all_reduce(lane, mesh().world, sent);
    if (divides && !prescales_ && predivide_ != world) scale(lane, sent, predivide_ / world);
  });
}

void DeepSpeedStage::reduce(Lane lane, Tensor buffer, int root) const {
  in_type_of_communication(lane, buffer, [&](Tensor sent) { fabric().reduce(lane, mesh().world, sent, sent, root); });
}

void DeepSpeedStage::check_cpu_adam() const {
  if (knobs().adam.passes != AdamPasses::fused)
    refuse("offload_optimizer: DeepSpeedCPUAdam updates in one pass; use optimizer.implementation: fused");
  if (knobs().loss_scale.on) refuse("offload_optimizer: loss scaling beside it is not modelled; remove precision.loss_scale");
}

void DeepSpeedStage::copy_to_host(Lane lane, Tensor grad, Tensor to) const {
  Held wide;
  if (grad.dtype() != to.dtype()) {
    wide = Held(device(), lane, alloc(lane, Band::grad, grad.count(), to.dtype()));
    device().launch(lane, Copy{grad, *wide});
  }
  device().launch(lane, Copy{wide ? *wide : grad, to});
}

void DeepSpeedStage::sum_over_ranks(Lane lane, Tensor squares, Tensor sum) const {
  device().launch(Lane::compute, Copy{squares, sum});
  order(Lane::compute, lane, Edge::gradient_before_reduction);
  all_reduce_control(lane, sum);
  order(lane, Lane::compute, Edge::reduction_before_update);
  tell({"step", "all_reduce of the squared norm, even if nothing is clipped", sum.bytes(), lane, "the host's sum of norms", ""});
}

Tensor DeepSpeedStage::factor_on_host(Tensor squares) const {
  const Tensor factor = update_factor(squares);
  const Tensor verdict = factor ? factor : squares;
  const Tensor on_host = alloc(Lane::compute, Band::workspace, verdict.count(), Dtype::fp32, Place::host);
  device().launch(Lane::compute, Copy{verdict, on_host});
  host_waits_for(Lane::compute);
  if (factor) {
    device().free(Lane::compute, factor);
    return on_host;
  }
  device().free(Lane::compute, on_host);
  return {};
}

}  // namespace shardsim
