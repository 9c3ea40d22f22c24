// deepspeed stage 3: what a rank holds.
#include "systems/deepspeed_stage3.h"

#include <algorithm>
#include <stdexcept>

namespace shardsim {

DeepSpeedStage3::DeepSpeedStage3(const Options& options)
    : DeepSpeedStage(options),
      contiguous_(options.boolean("contiguous_gradients")),
      scatters_(options.boolean("reduce_scatter")),
      overlaps_(options.text("overlap_comm") != "false"),
      sequential_(options.boolean("stage3_allgather_sequential")),
      fetches_by_all_reduce_(options.boolean("stage3_use_all_reduce_for_fetch_params")),
      quantizes_(options.boolean("zero_quantized_weights")),
      quantizes_gradients_(options.boolean("zero_quantized_gradients")),
      checks_overflow_(options.boolean("check_grad_overflow")),
      bucket_size_(options.integer("reduce_bucket_size")),
      sub_group_size_(options.integer("sub_group_size")),
      persistence_(options.integer("stage3_param_persistence_threshold")),
      model_persistence_(options.integer("stage3_model_persistence_threshold")),
      hpz_(options.integer("zero_hpz_partition_size")),
      mics_(options.integer("mics_shard_size")),
      limits_{options.integer("stage3_prefetch_bucket_size"), options.integer("stage3_max_live_parameters"),
              options.integer("stage3_max_reuse_distance")} {
  if (options.integer("stage3_module_granularity_threshold") > 0)
    throw std::invalid_argument("stage3_module_granularity_threshold: leaf modules are not modelled; use 0");
  if (options.number("gradient_predivide_factor") != 1)
    throw std::invalid_argument("gradient_predivide_factor: at stage 3 gradients are divided by the ranks at once; use 1.0");
  if (mics_ > 0) {
    if (mics_ == 1) throw std::invalid_argument("mics_shard_size: a group of one rank shares nothing; use -1, or 2 and more");
    if (hpz_ > 1)
      throw std::invalid_argument("zero_hpz_partition_size: MiCS has no secondary shards; use 1, or mics_shard_size: -1");
    if (fetches_by_all_reduce_)
      throw std::invalid_argument("stage3_use_all_reduce_for_fetch_params: MiCS gathers in its own way; use false");
    if (options.text("offload_optimizer") != "none")
      throw std::invalid_argument("offload_optimizer: MiCS has no support for it; use none");
    if (quantizes_gradients_) throw std::invalid_argument("zero_quantized_gradients: MiCS reduces in its own way; use false");
    if (quantizes_) throw std::invalid_argument("zero_quantized_weights: MiCS gathers in its own way; use false");
    if (options.boolean("mics_hierarchical_params_gather"))
      throw std::invalid_argument("mics_hierarchical_params_gather: gathers in two hops are not modelled; use false");
  }
  if (options.text("offload_param") != "none" && (hpz_ > 1 || quantizes_))
    throw std::invalid_argument("offload_param: beside hpZ and quantized weights not modelled; use none");
  if (quantizes_gradients_ && !scatters_)
    throw std::invalid_argument(
        "reduce_scatter: without it nothing is quantized, whatever zero_quantized_gradients says; use true");
  if (sequential_) limits_.prefetch_bucket = std::min<std::int64_t>(limits_.prefetch_bucket, 1);
}

void DeepSpeedStage3::make_bands() {
  check_types();
  make_groups();
  const Precision& precision = knobs().precision;
  order_ = in_module_order();
  std::vector<Dim> counts;
  for (const Parameter& parameter : parameters()) counts.push_back(parameter.count());
  pieces_ = DeepSpeedPieces(counts, order_, shards());
  states_.resize(counts.size());
  make_sub_groups();
  make_coordinator();
  label(Verb::bind);
  const Dim all = sub_groups_.back().at + sub_groups_.back().count;
  params_ = zeros(Band::param, all, precision.param, param_place());
  for (SubGroup& group : sub_groups_)
    for (Tensor* tensor : {&group.master, &group.m, &group.v})
      *tensor = zeros(Band::opt, group.count, Dtype::fp32, optimizer_place());
  for (const int p : order_) {
    const SubGroup& group = sub_groups_[std::size_t(states_[p].group)];
    const Dim begin = pieces_.own_cut(p), count = pieces_.own_piece(p);
    upload_theta0(own_shard(params_, p), p, begin, count);
    upload_theta0(group.master.slice(pieces_.at(p) - group.at, pieces_.own_padded(p)), p, begin, count);
  }
  grads_ = zeros(Band::grad, all, precision.grad, optimizer_place());
  if (!contiguous_) return;
  Dim model;  // what has come since the last flush is never more than that
  for (const Dim count : counts) model = model + count;
  bucket_ = alloc(Lane::compute, Band::bucket, model + Dim(bucket_size_ - model.charged(), 0), precision.reduce);
}

void DeepSpeedStage3::make_groups() {
  const int world = rank().world, me = rank().index;
  const auto check = [&](const char* name, std::int64_t size) {
    if (world % size != 0)
      refuse(std::string(name) + ": " + std::to_string(world) + " ranks are no groups of " + std::to_string(size) +
             "; use a divisor of the world");
    return int(size);
  };
  mesh_ = Mesh::of(me, world, mics_ > 0 ? check("mics_shard_size", mics_) : world);
  secondary_ = Mesh::of(me, world, check("zero_hpz_partition_size", hpz_)).shards;
  if (!quantizes_gradients_ || world == 1) return;
  if (knobs().shards == 0)
    refuse(
        "zero_quantized_gradients: needs to know how many ranks a node has; write mesh: {replicas: nodes, shards: ranks per node}");
  if (knobs().precision.reduce != knobs().precision.grad)
    refuse("zero_quantized_gradients: gradients are quantized as they are; leave precision.reduce out");
  if (knobs().shards < world) quantized_gradients_.emplace(rank(), Mesh::of(me, world, knobs().shards));
}

/// Closed by the parameter that fills it.
void DeepSpeedStage3::make_sub_groups() {
  for (const int p : order_) {
    State& s = states_[p];
    if (sub_groups_.empty() || sub_groups_.back().count.charged() >= sub_group_size_)
      sub_groups_.push_back({pieces_.at(p), none, {}, {}, {}});
    sub_groups_.back().count = sub_groups_.back().count + pieces_.own_padded(p);
    s.group = int(sub_groups_.size()) - 1;
  }
}

void DeepSpeedStage3::make_coordinator() {
  std::vector<DeepSpeedCoordinator::Parameter> all(parameters().size());
  std::int64_t sum = 0;
  for (const int p : order_) {
    const std::int64_t elements = parameters()[p].count().charged();
    all[p] = {elements, elements <= persistence_ && elements + sum <= model_persistence_};
    if (!all[p].persists) continue;
    sum += elements;
    persistent_.push_back(p);
  }
  std::vector<std::vector<int>> own;
  for (const ModuleNode& module : modules()) pieces_.sort(own.emplace_back(module.parameters));
  coordinator_.emplace(limits_, all, std::move(own));
}

void DeepSpeedStage3::limit(std::deque<Event>& ongoing) {
  constexpr std::size_t most = 2;
  if (ongoing.size() <= most) return;
  device().synchronize(ongoing.front());
  ongoing.pop_front();
}

std::string DeepSpeedStage3::several(const std::vector<int>& some) const {
  return parameters()[some.front()].name + (some.size() > 1 ? " and " + std::to_string(some.size() - 1) + " more" : "");
}

Tensor DeepSpeedStage3::own_shard(Tensor flat, int p) const { return flat.slice(pieces_.at(p), pieces_.own_padded(p)); }

}  // namespace shardsim
