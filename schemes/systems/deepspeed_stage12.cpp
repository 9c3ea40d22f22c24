// deepspeed_stage12: the flat tensor and its partitions, and the step.
#include "systems/deepspeed_stage12.h"

#include <stdexcept>

namespace shardsim {

DeepSpeedStage12::DeepSpeedStage12(const Options& options)
    : DeepSpeedStage(options),
      drops_foreign_(options.integer("stage") == 2),
      overlaps_(options.text("overlap_comm") == "true"),
      routes_slices_(options.boolean("reduce_scatter")),
      round_robin_(options.boolean("round_robin_gradients")),
      checks_overflow_(options.boolean("check_grad_overflow")),
      bucket_elements_(options.integer("reduce_bucket_size")) {
  if (routes_slices_ && options.number("gradient_predivide_factor") != 1)
    throw std::invalid_argument("gradient_predivide_factor: DeepSpeed takes no other than 1.0 with reduce_scatter: true");
  if (routes_slices_ && options.boolean("prescale_gradients"))
    throw std::invalid_argument("prescale_gradients: DeepSpeed does not take it with reduce_scatter: true");
  if (routes_slices_ && !options.boolean("use_multi_rank_bucket_allreduce"))
    throw std::invalid_argument("use_multi_rank_bucket_allreduce: a reduce per owner is not modelled; use true");
  if (!options.boolean("contiguous_gradients"))
    throw std::invalid_argument("contiguous_gradients: false is not modelled at stages 1 and 2; use true");
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

void DeepSpeedStage12::lay_out() {
  const std::vector<int> order = flat_order();
  std::vector<Dim> counts;
  for (const int p : order) counts.push_back(parameters()[p].count());
  const Image image(counts);
  // Every partition begins at a multiple of four bytes: nccl_start_alignment_factor is 2 elements.
  borders_ = image.slices(image.count().padded_to(2 * rank().world).charged(), rank().world);
  states_.resize(parameters().size());
  for (int i = 0; i < int(order.size()); ++i) {
    State& s = states_[order[i]];
    s.begin = image.begin(i);
    const auto [begin, count] = overlap(s.begin, counts[i], partition_begin(), partition_size());
    if (count.charged() == 0) continue;
    s.owned = true;
    own_.push_back({order[i], begin - s.begin, count});
    partition_grads_size_ = partition_grads_size_ + counts[i];
  }
}

void DeepSpeedStage12::make_bands() {
  check_types();
  lay_out();
  label(Verb::bind);
  flat_ = zeros(Band::param, borders_->back(), knobs().precision.param);
  for (int p = 0; p < int(states_.size()); ++p) {
    const Dim count = parameters()[p].count();
    upload_theta0(flat_.slice(states_[p].begin, count), p, none, count);
  }
  // A copy of the partition even where parameters are fp32 already.
  master_ = zeros(Band::opt, partition_size(), Dtype::fp32);
  m_ = zeros(Band::opt, partition_size(), Dtype::fp32), v_ = zeros(Band::opt, partition_size(), Dtype::fp32);
  for (const Own& own : own_) {
    const Dim at = states_[own.parameter].begin + own.begin - partition_begin();
    upload_theta0(master_.slice(at, own.count), own.parameter, own.begin, own.count);
  }
}

Tensor DeepSpeedStage12::parameter(int p) { return flat_.matrix(states_[p].begin, parameters()[p].rows, parameters()[p].cols); }

void DeepSpeedStage12::check_overflow() {
  label(Verb::clip);
  const Held found(device(), Lane::compute, zeros(Band::workspace, one, Dtype::fp32));
  for (const Own& own : own_)
    device().launch(Lane::compute,
                    SumSquares{summed_grads_.slice(states_[own.parameter].in_partition_grads + own.begin, own.count), *found});
  const Held flag(device(), Lane::compute, alloc(Lane::compute, Band::workspace, Dim(1, 0), Dtype::uint8));
  device().launch(Lane::compute, Fill{*flag, 0});
  order(Lane::compute, reduction(), Edge::gradient_before_reduction);
  all_reduce_control(reduction(), *flag);
  device().synchronize();
  tell({"step", "all_reduce of the overflow flag", 1, reduction(), "the scan of the own gradients", ""});
}

Tensor DeepSpeedStage12::squares_of_partition() {
  label(Verb::clip);
  const Tensor squares = zeros(Band::workspace, one, Dtype::fp32);
  for (const Own& own : own_)
    device().launch(Lane::compute,
                    SumSquares{summed_grads_.slice(states_[own.parameter].in_partition_grads + own.begin, own.count), squares});
  order(Lane::compute, reduction(), Edge::gradient_before_reduction);
  all_reduce_control(reduction(), squares);
  order(reduction(), Lane::compute, Edge::reduction_before_update);
  tell({"step", "all_reduce of the squared norm, even if nothing is clipped", squares.bytes(), reduction(), "own gradients", ""});
  return squares;
}

Tensor DeepSpeedStage12::wide_gradient() {
  std::vector<Tensor> pieces;
  Dim count;
  for (const Own& own : own_) {
    pieces.push_back(summed_grads_.slice(states_[own.parameter].in_partition_grads + own.begin, own.count));
    count = count + own.count;
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

void DeepSpeedStage12::update() {
  if (checks_overflow_) check_overflow();
  const Tensor squares = squares_of_partition();
  const Tensor factor = factor_of_clipping(squares);
  label(Verb::adam);
  const Tensor wide = wide_gradient();
  const bool is_new = !summed_grads_ || wide.in != summed_grads_.in;
  if (summed_grads_ && is_new) device().free(Lane::compute, summed_grads_);
  scale(Lane::compute, wide, 1);  // unscale_and_clip_grads multiplies even by 1; a factor that is not 1 is Adam's here
  Held denominator;
  if (knobs().adam.passes != AdamPasses::fused)
    denominator = Held(device(), Lane::compute, alloc(Lane::compute, Band::workspace, partition_size(), Dtype::fp32));
  step_adam(wide, factor, master_, m_, v_);
  denominator.reset();
  device().free(Lane::compute, wide);
  summed_grads_ = {};
  device().launch(Lane::compute, Copy{master_, flat_.slice(partition_begin(), partition_size())});
  device().free(Lane::compute, squares);
  if (factor) device().free(Lane::compute, factor);
  gather_parameters();
}

void DeepSpeedStage12::gather_parameters() {
  label(Verb::all_gather);
  order(Lane::compute, reduction(), Edge::update_before_gather);
  fabric().all_gather(reduction(), mesh().world, flat_.slice(partition_begin(), partition_size()), flat_, Payload::data, borders_);
  order(reduction(), Lane::compute, Edge::parameters_before_use);
  tell({"Adam is over", "all_gather of the partitions, in place", flat_.bytes(), reduction(), "compute; and compute for it", ""});
}

void DeepSpeedStage12::append_theta(std::vector<ThetaPiece>& pieces) {
  pieces.resize(own_.size());
  for (std::size_t i = 0; i < own_.size(); ++i) {
    const Own& own = own_[i];
    pieces[i] = {own.parameter, own.begin, own.count, {}};
    const Dim at = states_[own.parameter].begin + own.begin - partition_begin();
    device().download(Lane::compute, master_.slice(at, own.count), pieces[i].values);
  }
}

}  // namespace shardsim
