// torch_zero_redundancy_optimizer: who owns which parameter, and the broadcasts after the local step.
#include "systems/torch_zero_redundancy_optimizer.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace shardsim {

std::vector<Option> TorchZeroRedundancyOptimizer::options() {
  std::vector<Option> all = PytorchDdp::options();
  all.push_back({"parameters_as_bucket_view", Option::Kind::boolean, "false",
                 "parameters of one owner lie in one tensor, which is broadcast at once"});
  all.push_back(
      {"overlap_with_ddp", Option::Kind::boolean, "false",
       "with hook_with_zero_step: a rank owns whole buckets of DDP, and updates and broadcasts each as soon as it is reduced; "
       "nothing is updated before the buckets are final, in the first 2 steps (3 with static_graph)"});
  return all;
}

TorchZeroRedundancyOptimizer::TorchZeroRedundancyOptimizer(const Options& options)
    : PytorchDdp(options),
      bucket_view_(options.boolean("parameters_as_bucket_view")),
      overlaps_(options.boolean("overlap_with_ddp")),
      first_update_(!overlaps_                        ? 0
                    : options.boolean("static_graph") ? 3
                                                      : 2) {
  if (overlaps_ && options.boolean("find_unused_parameters"))
    throw std::invalid_argument("overlap_with_ddp: DDP does not rebuild its buckets with find_unused_parameters: true; use false");
}

/// _partition_parameters: the largest first, each to the first rank of those that have the least.
void TorchZeroRedundancyOptimizer::partition() {
  std::vector<int> order(parameters().size());
  std::iota(order.begin(), order.end(), 0);
  const auto size = [this](int p) { return parameters()[std::size_t(p)].count().charged(); };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return size(a) > size(b); });
  std::vector<std::int64_t> given(std::size_t(rank().world));
  owners_.resize(order.size());
  by_owner_.resize(given.size());
  for (const int p : order) {
    const auto owner = std::size_t(std::min_element(given.begin(), given.end()) - given.begin());
    given[owner] += size(p);
    owners_[std::size_t(p)] = int(owner);
    by_owner_[owner].push_back(p);
  }
}

void TorchZeroRedundancyOptimizer::check_knobs() const {
  if (knobs().precision.has_master())
    refuse(
        "ZeroRedundancyOptimizer keeps no fp32 master of 16-bit parameters; write precision: {master: none}, "
        "or fp32 parameters");
  if (overlaps_ && needs_norm())
    refuse(
        "overlap_with_ddp: parameters are updated before the whole gradient is there, so nothing can be "
        "clipped or skipped; remove optimizer.clip and precision.loss_scale");
}

/// One tensor for each list of parameters.
void TorchZeroRedundancyOptimizer::lay_out(const std::vector<std::vector<int>>& lists) {
  places_.resize(parameters().size());
  for (std::size_t i = 0; i < lists.size(); ++i) {
    Dim count;
    for (const int p : lists[i]) {
      places_[std::size_t(p)] = count;
      count = count + parameters()[std::size_t(p)].count();
    }
    label(Verb::bind, int(i));
    flat_.push_back(lists[i].empty() ? Tensor{} : alloc(Lane::compute, Band::param, count, knobs().precision.param));
  }
}

void TorchZeroRedundancyOptimizer::make_bands() {
  check_knobs();
  partition();
  if (bucket_view_) lay_out(by_owner_);
  PytorchDdp::make_bands();
}

Tensor TorchZeroRedundancyOptimizer::make_param(int p) {
  if (!bucket_view_) return PytorchDdp::make_param(p);
  return flat_[std::size_t(owners_[std::size_t(p)])].slice(places_[std::size_t(p)], parameters()[std::size_t(p)].count());
}

void TorchZeroRedundancyOptimizer::update() {
  if (overlaps_) return zero_grad();  // the hook has done it
  PytorchDdp::update();
  order(Lane::compute, lane(Lane::reduce), Edge::update_before_gather);
  for (int owner = 0; owner < rank().world; ++owner) {
    if (bucket_view_ && flat_[std::size_t(owner)]) broadcast(flat_[std::size_t(owner)], owner, owner);
    for (const int p : by_owner_[std::size_t(owner)])
      if (!bucket_view_) broadcast(state(p).param, owner, p);
  }
  wait_for_broadcasts("the local step");
}

/// On the process group's own stream, as DDP's buckets.
void TorchZeroRedundancyOptimizer::broadcast(Tensor tensor, int owner, int unit) {
  label(Verb::broadcast, unit);
  fabric().broadcast(lane(Lane::reduce), mesh().world, tensor, owner);
  ++broadcasts_, broadcast_bytes_ += tensor.bytes();
}

void TorchZeroRedundancyOptimizer::wait_for_broadcasts(const char* trigger) {
  const Lane lane = this->lane(Lane::reduce);
  order(lane, Lane::compute, Edge::parameters_before_use);
  tell({trigger, std::to_string(broadcasts_) + " broadcasts by the owners", broadcast_bytes_, lane,
        "the owner's step; and compute for all of them", ""});
  broadcasts_ = 0, broadcast_bytes_ = 0;
}

/// The first forward pass with DDP's final buckets: bucket i belongs to rank i modulo the world, and its parameters move into one
/// tensor. Only now do optimizer states come to be.
void TorchZeroRedundancyOptimizer::begin_micro_batch() {
  PytorchDdp::begin_micro_batch();
  if (!overlaps_ || step() != first_update_ || !micro_batch().first) return;
  std::vector<Tensor> old;
  old.swap(flat_);
  std::vector<std::vector<int>> lists;
  for (const Bucket& bucket : buckets()) lists.push_back(bucket.parameters);
  lay_out(lists);
  for (std::size_t b = 0; b < lists.size(); ++b)
    for (const int p : lists[b]) {
      const Tensor moved = flat_[b].slice(places_[std::size_t(p)], parameters()[std::size_t(p)].count());
      label(Verb::bind, p);
      device().launch(Lane::compute, Copy{state(p).param, moved});
      if (!bucket_view_) device().free(Lane::compute, state(p).param);
      state(p).param = moved;
      if (owner_of_bucket(b) == mesh().world.me) make_opt(p);
    }
  for (const Tensor& tensor : old)
    if (tensor) device().free(Lane::compute, tensor);
}

/// hook_with_zero_step, called with the last bucket: in order, the owner's step as soon as the bucket is reduced, and its
/// broadcast.
void TorchZeroRedundancyOptimizer::buckets_launched() {
  if (!overlaps_ || step() < first_update_) return;
  for (std::size_t b = 0; b < buckets().size(); ++b) {
    const int owner = owner_of_bucket(b);
    if (owner == mesh().world.me) {
      after(buckets()[b].reduced, Lane::compute, Edge::reduction_before_update);
      std::vector<AdamTensors> list;
      for (const int p : buckets()[b].parameters)
        list.push_back(adam_tensors(p, buckets()[b].flat.slice(state(p).at, parameters()[std::size_t(p)].count())));
      launch_adam(list, {});
    }
    // A bucket that another rank owns is written over, too: not before backward has read it.
    order(Lane::compute, lane(Lane::reduce), Edge::update_before_gather);
    broadcast(flat_[b], owner, int(b));
  }
  wait_for_broadcasts("the last bucket is launched");
}

}  // namespace shardsim
