// deepspeed_stage12: the layout, and the step.
#include "systems/deepspeed_stage12.h"

#include <stdexcept>

namespace shardsim {

DeepSpeedStage12::DeepSpeedStage12(const Options& options)
    : DeepSpeedPartitioned(options),
      drops_foreign_(options.integer("stage") == 2),
      overlaps_(options.text("overlap_comm") == "true"),
      contiguous_(options.boolean("contiguous_gradients")),
      routes_slices_(options.boolean("reduce_scatter")),
      reduces_to_owners_(!options.boolean("use_multi_rank_bucket_allreduce")),
      round_robin_(options.boolean("round_robin_gradients")),
      checks_overflow_(options.boolean("check_grad_overflow")),
      bucket_elements_(options.integer("reduce_bucket_size")) {
  if (routes_slices_ && options.number("gradient_predivide_factor") != 1)
    throw std::invalid_argument("gradient_predivide_factor: DeepSpeed takes no other than 1.0 with reduce_scatter: true");
  if (routes_slices_ && options.boolean("prescale_gradients"))
    throw std::invalid_argument("prescale_gradients: DeepSpeed does not take it with reduce_scatter: true");
}

/// Round robin deals the parameters out to the ranks like cards, and lays the hands one behind the other.
std::vector<int> DeepSpeedStage12::flat_order() const {
  const std::vector<int> order = in_module_order();
  if (!round_robin_) return order;
  const std::size_t ranks = std::size_t(rank().world);
  std::vector<int> dealt;
  for (std::size_t hand = 0; hand < ranks; ++hand)
    for (std::size_t i = hand; i < order.size(); i += ranks) dealt.push_back(order[i]);
  return dealt;
}

void DeepSpeedStage12::make_bands() {
  check_types();
  make_partitions(flat_order(), optimizer_place());
  states_.resize(parameters().size());
  for (const Own& piece : own()) {
    states_[piece.parameter].owned = true;
    partition_grads_size_ = partition_grads_size_ + parameters()[piece.parameter].count();
  }
}

Tensor DeepSpeedStage12::own_gradient(const Own& piece) const {
  return states_[piece.parameter].sum.slice(piece.begin, piece.count);
}

void DeepSpeedStage12::check_overflow() {
  label(Verb::clip);
  const Held found(device(), Lane::compute, zeros(Band::workspace, one, Dtype::fp32));
  for (const Own& piece : own()) device().launch(Lane::compute, SumSquares{own_gradient(piece), *found});
  share_overflow();
}

void DeepSpeedStage12::share_overflow() {
  label(Verb::clip);
  const Held flag(device(), Lane::compute, alloc(Lane::compute, Band::workspace, Dim(1, 0), Dtype::uint8));
  device().launch(Lane::compute, Fill{*flag, 0});
  order(Lane::compute, reduction(), Edge::gradient_before_reduction);
  all_reduce_control(reduction(), *flag);
  device().synchronize();
  tell({"step", "all_reduce of the overflow flag", 1, reduction(), "the scan of the own gradients; and the host for it", ""});
}

Tensor DeepSpeedStage12::squares_of_partition() {
  label(Verb::clip);
  const Tensor squares = zeros(Band::workspace, one, Dtype::fp32);
  for (const Own& piece : own()) device().launch(Lane::compute, SumSquares{own_gradient(piece), squares});
  order(Lane::compute, reduction(), Edge::gradient_before_reduction);
  all_reduce_control(reduction(), squares);
  order(reduction(), Lane::compute, Edge::reduction_before_update);
  tell({"step", "all_reduce of the squared norm, even if nothing is clipped", squares.bytes(), reduction(), "own gradients", ""});
  return squares;
}

Tensor DeepSpeedStage12::wide_gradient() {
  std::vector<Tensor> pieces;
  Dim count;
  for (const Own& piece : own()) {
    pieces.push_back(own_gradient(piece));
    count = count + piece.count;
  }
  const Dim padding = partition_size() - count;
  Held zero;
  if (padding.charged() > 0) {
    zero = Held(device(), Lane::compute, zeros(Band::grad, padding, knobs().precision.grad));
    pieces.push_back(*zero);
  }
  const bool copies = pieces.size() > 1 || zero;
  const Tensor narrow = copies ? flattened(Lane::compute, Band::grad, pieces) : pieces.front();
  if (knobs().precision.grad == Dtype::fp32) return narrow;
  const Tensor wide = alloc(Lane::compute, Band::grad, partition_size(), Dtype::fp32);
  device().launch(Lane::compute, Copy{narrow, wide});
  if (copies) device().free(Lane::compute, narrow);
  return wide;
}

void DeepSpeedStage12::drop_sums(Tensor used) {
  const auto drop = [&](Tensor& tensor) {
    if (tensor && tensor.in != used.in) device().free(Lane::compute, tensor);
    tensor = {};
  };
  for (const Own& piece : own()) {
    if (contiguous_) states_[piece.parameter].sum = {};
    else drop(states_[piece.parameter].sum);
  }
  drop(summed_grads_);
}

void DeepSpeedStage12::update() {
  if (checks_overflow_ || knobs().loss_scale.on) check_overflow();
  const Tensor squares = squares_of_partition();
  const Tensor factor = update_factor(squares);
  label(Verb::adam);
  const Tensor wide = wide_gradient();
  drop_sums(wide);
  scale(Lane::compute, wide, 1);  // unscale_and_clip_grads multiplies even by 1; a factor that is not 1 is Adam's here
  update_partition(wide, factor);
  device().free(Lane::compute, wide);
  publish_partition();
  device().free(Lane::compute, squares);
  if (factor) device().free(Lane::compute, factor);
  gather_parameters(reduction());
}

}  // namespace shardsim
