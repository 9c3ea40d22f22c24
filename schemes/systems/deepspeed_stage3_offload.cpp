// deepspeed stage 3 with offloading: what goes over the link, and the CPU's step.
#include "systems/deepspeed_stage3_offload.h"

namespace shardsim {

DeepSpeedStage3Offload::DeepSpeedStage3Offload(const Options& options)
    : DeepSpeedStage3(options), params_on_host_(options.text("offload_param") == "cpu") {}

void DeepSpeedStage3Offload::make_bands() {
  check_cpu_adam();
  DeepSpeedStage3::make_bands();
  fp32_grads_ = zeros(Band::grad, grads_.count(), Dtype::fp32, Place::host);
  const auto count = std::int64_t(order_.size());
  squares_ = zeros(Band::workspace, Dim(count, count), Dtype::fp32);
}

/// A single rank's copy is not waited for: there is nothing to send.
Tensor DeepSpeedStage3Offload::shard_to_send(Lane lane, int p) {
  if (!params_on_host_) return own_shard(params_, p);
  const Tensor shard = alloc(lane, Band::gathered, pieces_.own_padded(p), params_.dtype());
  device().launch(lane, Copy{own_shard(params_, p), shard});
  if (shards().size > 1) host_waits_for(lane);
  return shard;
}

void DeepSpeedStage3Offload::give_back(Lane lane, Tensor shard) {
  if (params_on_host_) device().free(lane, shard);
}

/// All of them come to the GPU before the first is laid out.
void DeepSpeedStage3Offload::lay_out_shards(Lane lane, const std::vector<int>& parameters, Tensor to) {
  if (!params_on_host_) return DeepSpeedStage3::lay_out_shards(lane, parameters, to);
  std::vector<Tensor> shards;
  for (const int p : parameters) shards.push_back(shard_to_send(lane, p));
  Dim at;
  for (const Tensor& shard : shards) {
    device().launch(lane, Copy{shard, to.slice(at, shard.count()), at.charged() > 0});
    at = at + shard.count();
  }
  for (const Tensor& shard : shards) give_back(lane, shard);
}

/// To the host, and back at once where it has just gone there: DeepSpeed's norm wants it on the GPU. Sums are made there, too.
void DeepSpeedStage3Offload::keep(int p, Tensor piece) {
  if (piece.count().charged() == 0) return;
  const Lane lane = reduce_lane();
  const Tensor kept = grads_.slice(pieces_.at(p), piece.count());
  const Held here(device(), lane, alloc(lane, Band::grad, piece.count(), grads_.dtype()));
  if (micro_batch().first) {
    device().launch(lane, Copy{piece, kept});
    device().launch(lane, Copy{kept, *here});
  } else {
    device().launch(lane, Copy{kept, *here});
    device().launch(lane, Add{piece, *here});
    device().launch(lane, Copy{*here, kept});
  }
  if (!micro_batch().last) return;
  const auto place = std::int64_t(pieces_.place(p));
  const Tensor squares = squares_.slice(Dim(place, place), one);
  device().launch(lane, Fill{squares, 0.f});
  device().launch(lane, SumSquares{*here, squares});
  copy_to_host(lane, *here, fp32_grads_.slice(pieces_.at(p), piece.count()));
  host_waits_for(lane);
}

/// One sum per sub-group: added on the GPU, then by way of the host's `float()`.
Tensor DeepSpeedStage3Offload::squares_of_gradients() {
  label(Verb::clip);
  const auto groups = std::int64_t(sub_groups_.size());
  const Tensor squares = alloc(Lane::compute, Band::workspace, Dim(groups, groups), Dtype::fp32);
  const auto slot = [](Tensor of, std::int64_t at) { return of.slice(Dim(at, at), one); };
  device().launch(Lane::compute, Fill{squares, 0.f});
  for (const int p : order_) {
    const State& s = states_[p];
    if (pieces_.own_piece(p).charged() == 0) continue;
    device().launch(Lane::compute, Add{slot(squares_, std::int64_t(pieces_.place(p))), slot(squares, s.group)});
  }
  const Held on_host(device(), Lane::compute, alloc(Lane::compute, Band::workspace, one, Dtype::fp32, Place::host));
  for (std::int64_t group = 0; group < groups; ++group) {
    device().launch(Lane::compute, Copy{slot(squares, group), *on_host});
    host_waits_for(Lane::compute);
    sum_over_ranks(Lane::compute, *on_host, slot(squares, group));
  }
  return squares;
}

void DeepSpeedStage3Offload::update(const SubGroup& group, Tensor factor) {
  const int index = int(&group - sub_groups_.data());
  const Lane lane = Lane::compute;
  label(Verb::adam, index);
  const Tensor grad = fp32_grads_.slice(group.at, group.count), params = params_.slice(group.at, group.count);
  scale(lane, grad, 1);
  launch_adam({{index, grad, group.master, group.m, group.v, group.master}}, factor);
  if (params_on_host_) {
    device().launch(lane, Copy{group.master, params});
  } else {  // rounded on the host: PyTorch converts there on the way to a GPU
    const Held rounded(device(), lane, alloc(lane, Band::param, group.count, params_.dtype(), Place::host));
    device().launch(lane, Copy{group.master, *rounded});
    device().launch(lane, Copy{*rounded, params});
  }
  host_waits_for(lane);
  tell({"step", "the CPU updates a sub-group", group.count.charged() * 4, lane, "the norm", ""});
}

}  // namespace shardsim
