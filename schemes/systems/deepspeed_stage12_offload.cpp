// deepspeed stages 1 and 2 with `offload_optimizer: cpu`: how gradients get to the host, and the CPU's step.
#include "systems/deepspeed_stage12_offload.h"

#include <stdexcept>

namespace shardsim {

DeepSpeedStage12Offload::DeepSpeedStage12Offload(const Options& options) : DeepSpeedStage12(options) {
  if (!contiguous_)
    throw std::invalid_argument(
        "contiguous_gradients: without it DeepSpeed brings no gradient to an offloaded optimizer; use true");
}

void DeepSpeedStage12Offload::make_bands() {
  check_cpu_adam();
  DeepSpeedStage12::make_bands();
  pieces_.resize(parameters().size()), accumulated_.resize(parameters().size());
  for (std::size_t i = 0; i < own().size(); ++i) pieces_[own()[i].parameter] = i;
  Dim largest;
  for (const Parameter& p : parameters())
    if (p.count().charged() > largest.charged()) largest = p.count();
  host_grad_ = zeros(Band::grad, partition_size(), Dtype::fp32, Place::host);
  host_param_ = zeros(Band::param, partition_size(), knobs().precision.param, Place::host);
  scratch_ = zeros(Band::bucket, largest, knobs().precision.grad);
  host_scratch_ = zeros(Band::bucket, largest, knobs().precision.grad, Place::host);
  const auto pieces = std::int64_t(own().size());
  if (pieces > 0) squares_ = zeros(Band::workspace, Dim(pieces, pieces), Dtype::fp32);
}

void DeepSpeedStage12Offload::keep_own_gradient(int p) {
  const Lane lane = reduction();
  if (knobs().accumulation > 1) accumulate(p, lane);
  if (micro_batch().last) {
    const auto place = std::int64_t(pieces_[p]);
    const Own& piece = own()[pieces_[p]];
    const Tensor grad = states_[p].grad.slice(none, parameters()[p].count()), mine = grad.slice(piece.begin, piece.count);
    const Tensor squares = squares_.slice(Dim(place, place), one);
    device().launch(lane, Fill{squares, 0.f});
    device().launch(lane, SumSquares{mine, squares});
    const Held scan(device(), lane, alloc(lane, Band::workspace, one, Dtype::fp32));
    const Held verdict(device(), lane, alloc(lane, Band::workspace, one, Dtype::fp32, Place::host));
    device().launch(lane, Fill{*scan, 0.f});
    device().launch(lane, SumSquares{grad, *scan});
    device().launch(lane, Copy{*scan, *verdict});
    host_waits_for(lane);
    copy_to_host(lane, mine, host_grad_.slice(piece.at, piece.count));
  }
  drop_gradient(p, lane);
}

/// By way of the GPU, which adds faster.
void DeepSpeedStage12Offload::accumulate(int p, Lane lane) {
  const Tensor grad = states_[p].grad.slice(none, parameters()[p].count());
  Tensor& sum = accumulated_[p];
  if (!sum) {
    sum = alloc(lane, Band::grad, grad.count(), grad.dtype(), Place::host);
    device().launch(lane, Fill{sum, 0.f});
    host_waits_for(lane);
  }
  if (!micro_batch().first) {
    const Tensor earlier = scratch_.slice(none, grad.count());
    device().launch(lane, Copy{sum, earlier});
    device().launch(lane, Add{earlier, grad});
  }
  if (!micro_batch().last) device().launch(lane, Copy{grad, sum});
}

/// The host asks for one norm after another, and adds them.
Tensor DeepSpeedStage12Offload::squares_of_own() {
  const Held sum(device(), Lane::compute, zeros(Band::workspace, one, Dtype::fp32, Place::host));
  for (std::size_t i = 0; i < own().size(); ++i) {
    const Held squares(device(), Lane::compute, alloc(Lane::compute, Band::workspace, one, Dtype::fp32, Place::host));
    device().launch(Lane::compute, Copy{squares_.slice(Dim(std::int64_t(i), std::int64_t(i)), one), *squares});
    host_waits_for(Lane::compute);
    device().launch(Lane::compute, Add{*squares, *sum});
  }
  const Tensor squares = alloc(Lane::compute, Band::workspace, one, Dtype::fp32);
  sum_over_ranks(reduction(), *sum, squares);
  return squares;
}

void DeepSpeedStage12Offload::update() {
  if (checks_overflow_) share_overflow();
  label(Verb::clip);
  const Tensor squares = squares_of_own();
  const Tensor factor = factor_on_host(squares);
  device().free(Lane::compute, squares);
  label(Verb::adam);
  scale(Lane::compute, host_grad_, 1);  // as on the GPU, a pass of its own
  update_partition(host_grad_, factor);
  publish_partition(host_param_);
  if (factor) device().free(Lane::compute, factor);
  tell({"step", "the CPU updates the partition; then it goes to the GPU", host_param_.bytes(), Lane::compute, "the norm", ""});
  gather_parameters(reduction());
}

}  // namespace shardsim
