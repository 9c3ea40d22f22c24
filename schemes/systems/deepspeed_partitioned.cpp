// deepspeed_partitioned: the flat tensor, its partitions, and their update.
#include "systems/deepspeed_partitioned.h"

namespace shardsim {

void DeepSpeedPartitioned::make_partitions(const std::vector<int>& order, Place optimizer) {
  std::vector<Dim> counts;
  for (const int p : order) counts.push_back(parameters()[p].count());
  const Image image(counts);
  // Every partition begins at a multiple of four bytes: nccl_start_alignment_factor is 2 elements.
  borders_ = image.slices(image.count().padded_to(2 * rank().world).charged(), rank().world);
  label(Verb::bind);
  flat_ = zeros(Band::param, borders_->back(), knobs().precision.param);
  // A copy of the partition even where parameters are fp32 already.
  for (Tensor* tensor : {&master_, &m_, &v_}) *tensor = zeros(Band::opt, partition_size(), Dtype::fp32, optimizer);
  begins_.resize(parameters().size());
  for (int i = 0; i < int(order.size()); ++i) {
    const int p = order[i];
    begins_[p] = image.begin(i);
    upload_theta0(flat_.slice(begins_[p], counts[i]), p, none, counts[i]);
    const auto [begin, count] = overlap(begins_[p], counts[i], partition_begin(), partition_size());
    if (count.charged() == 0) continue;
    own_.push_back({p, begin - begins_[p], count, begin - partition_begin()});
    upload_theta0(master_.slice(own_.back().at, count), p, own_.back().begin, count);
  }
}

void DeepSpeedPartitioned::update_partition(Tensor grad, Tensor factor) {
  launch_adam({{-1, grad, master_, m_, v_, master_}}, factor);
}

void DeepSpeedPartitioned::publish_partition(Tensor by_way_of) const {
  if (by_way_of) {
    device().launch(Lane::compute, Copy{master_, by_way_of});
    host_waits_for(Lane::compute);
  }
  device().launch(Lane::compute, Copy{by_way_of ? by_way_of : master_, flat_.slice(partition_begin(), partition_size())});
}

/// Synchronous: compute waits for it, and nothing hides it.
void DeepSpeedPartitioned::gather_parameters(Lane lane) const {
  label(Verb::all_gather);
  order(Lane::compute, lane, Edge::update_before_gather);
  fabric().all_gather(lane, mesh().world, flat_.slice(partition_begin(), partition_size()), flat_, Payload::data, borders_);
  order(lane, Lane::compute, Edge::parameters_before_use);
  tell({"Adam is over", "all_gather of the partitions, in place", flat_.bytes(), lane, "compute; and compute for it", ""});
}

Tensor DeepSpeedPartitioned::parameter(int p) { return flat_.matrix(begins_[p], parameters()[p].rows, parameters()[p].cols); }

void DeepSpeedPartitioned::append_theta(std::vector<ThetaPiece>& pieces) {
  pieces.resize(own_.size());
  for (std::size_t i = 0; i < own_.size(); ++i) {
    pieces[i] = {own_[i].parameter, own_[i].begin, own_[i].count, {}};
    device().download(Lane::compute, master_.slice(own_[i].at, own_[i].count), pieces[i].values);
  }
}

}  // namespace shardsim
