// deepspeed stage 3: what a rank holds, and how parameters come and go.
#include "systems/deepspeed_stage3.h"

#include <algorithm>
#include <stdexcept>

#include "core/error.h"

namespace shardsim {

DeepSpeedStage3::DeepSpeedStage3(const Options& options)
    : DeepSpeedStage(options),
      contiguous_(options.boolean("contiguous_gradients")),
      scatters_(options.boolean("reduce_scatter")),
      overlaps_(options.text("overlap_comm") != "false"),
      sequential_(options.boolean("stage3_allgather_sequential")),
      fetches_by_all_reduce_(options.boolean("stage3_use_all_reduce_for_fetch_params")),
      checks_overflow_(options.boolean("check_grad_overflow")),
      bucket_size_(options.integer("reduce_bucket_size")),
      sub_group_size_(options.integer("sub_group_size")),
      persistence_(options.integer("stage3_param_persistence_threshold")),
      model_persistence_(options.integer("stage3_model_persistence_threshold")),
      limits_{options.integer("stage3_prefetch_bucket_size"), options.integer("stage3_max_live_parameters"),
              options.integer("stage3_max_reuse_distance")} {
  if (options.integer("stage3_module_granularity_threshold") > 0)
    throw std::invalid_argument("stage3_module_granularity_threshold: leaf modules are not modelled; use 0");
  if (options.number("gradient_predivide_factor") != 1)
    throw std::invalid_argument("gradient_predivide_factor: at stage 3 gradients are divided by the ranks at once; use 1.0");
  if (sequential_) limits_.prefetch_bucket = std::min<std::int64_t>(limits_.prefetch_bucket, 1);
}

void DeepSpeedStage3::make_bands() {
  check_types();
  const Precision& precision = knobs().precision;
  order_ = in_module_order();
  cut_parameters();
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
    const Dim begin = states_[p].cuts[std::size_t(me())], count = piece(p, me());
    upload_theta0(own_shard(params_, p), p, begin, count);
    upload_theta0(group.master.slice(states_[p].at - group.at, padded(p, me())), p, begin, count);
  }
  grads_ = zeros(Band::grad, all, precision.grad, optimizer_place());
  if (!contiguous_) return;
  Dim model;  // what has come since the last flush is never more than that
  for (const Parameter& parameter : parameters()) model = model + parameter.count();
  bucket_ = alloc(Lane::compute, Band::bucket, model + Dim(bucket_size_ - model.charged(), 0), precision.reduce);
}

/// Each parameter by itself, in N pieces of equal size; the last ones may be shorter, or empty, and are padded.
void DeepSpeedStage3::cut_parameters() {
  states_.resize(parameters().size());
  Dim at;
  for (std::size_t place = 0; place < order_.size(); ++place) {
    const int p = order_[place];
    State& s = states_[p];
    const Dim count = parameters()[p].count();
    s.place = place;
    s.shard = (count.charged() + world() - 1) / world();
    for (int r = 0; r <= world(); ++r) s.cuts.push_back(count.part(std::min(r * s.shard, count.charged())));
    s.at = at;
    at = at + padded(p, me());
  }
}

/// Closed by the parameter that fills it.
void DeepSpeedStage3::make_sub_groups() {
  for (const int p : order_) {
    State& s = states_[p];
    if (sub_groups_.empty() || sub_groups_.back().count.charged() >= sub_group_size_)
      sub_groups_.push_back({s.at, none, {}, {}, {}});
    sub_groups_.back().count = sub_groups_.back().count + padded(p, me());
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
  for (const ModuleNode& module : modules()) sort_by_place(own.emplace_back(module.parameters));
  coordinator_.emplace(limits_, all, std::move(own));
}

Borders DeepSpeedStage3::borders_of(const std::vector<int>& parameters) const {
  std::vector<Dim> borders{none};
  for (int r = 0; r < world(); ++r) {
    borders.push_back(borders.back());
    for (const int p : parameters) borders.back() = borders.back() + padded(p, r);
  }
  return std::make_shared<const std::vector<Dim>>(std::move(borders));
}

void DeepSpeedStage3::sort_by_place(std::vector<int>& parameters) const {
  std::sort(parameters.begin(), parameters.end(), [this](int a, int b) { return states_[a].place < states_[b].place; });
}

std::string DeepSpeedStage3::several(const std::vector<int>& some) const {
  return parameters()[some.front()].name + (some.size() > 1 ? " and " + std::to_string(some.size() - 1) + " more" : "");
}

Tensor DeepSpeedStage3::own_shard(Tensor flat, int p) const { return flat.slice(states_[p].at, padded(p, me())); }

void DeepSpeedStage3::begin_micro_batch() {
  for (const int p : coordinator_->begin_pass()) drop(p);
}

Tensor DeepSpeedStage3::parameter(int p) {
  if (!states_[p].full) throw IllegalStep("stage 3: " + parameters()[p].name + " is used and not gathered");
  return states_[p].full.matrix(none, parameters()[p].rows, parameters()[p].cols);
}

void DeepSpeedStage3::fetch(int module) {
  const std::string& name = modules()[std::size_t(module)].name;
  for (const int p : coordinator_->enter(module)) drop(p);
  const DeepSpeedCoordinator::Fetch needed = coordinator_->fetch(module);
  if (!needed.gather.empty()) gather(needed.gather, name + " begins and needs them");
  for (const int p : needed.wait) wait(p);
  const std::vector<int> ahead = coordinator_->look_ahead(module);
  if (!ahead.empty()) gather(ahead, name + " begins; ahead of use");
}

void DeepSpeedStage3::release(int module) {
  const std::vector<int> dropped = coordinator_->release(module);
  for (const int p : dropped) drop(p);
  if (!dropped.empty()) tell({modules()[std::size_t(module)].name + " ends", "release", 0, Lane::compute, "", several(dropped)});
}

void DeepSpeedStage3::gather(std::vector<int> wanted, const std::string& trigger) {
  sort_by_place(wanted);
  if (!sequential_) return gather_together(std::move(wanted), trigger);
  for (const int p : wanted) gather_together({p}, trigger);
}

void DeepSpeedStage3::gather_together(std::vector<int> wanted, const std::string& trigger) {
  const auto gather = std::make_shared<Gather>();
  gather->parameters = std::move(wanted);
  gather->unused = gather->parameters.size();
  for (const int p : gather->parameters) states_[p].pending = gather;
  if (world() == 1) {
    for (const int p : gather->parameters) states_[p].full = shard_to_send(Lane::compute, p);
    return;
  }
  const Lane lane = this->lane(Lane::gather);
  label(Verb::all_gather, gather->parameters.front());
  after(updated_, lane, Edge::update_before_gather);
  if (!overlaps_) device().wait(lane, device().record(Lane::compute));  // issued from the compute stream: behind what it has queued
  launch(*gather, lane);
  gather->over = device().record(lane);
  const std::string what = fetches_by_all_reduce_ ? "all_reduce" : "all_gather";
  tell({trigger, what + " of " + several(gather->parameters), gather->buffer.bytes(), lane, "", ""});
}

/// A single parameter is a view of the buffer, and so are those of an all-reduce; others are copied out when they are waited for.
void DeepSpeedStage3::launch(Gather& gather, Lane lane) {
  const Dtype type = knobs().precision.param;
  const bool alone = gather.parameters.size() == 1;
  if (fetches_by_all_reduce_) {
    Dim count;
    for (const int p : gather.parameters) count = count + parameters()[p].count();
    gather.buffer = alloc(lane, Band::gathered, count, type);
    device().launch(lane, Fill{gather.buffer, 0.f});
    Dim at;
    for (const int p : gather.parameters) {
      State& s = states_[p];
      const Dim own = piece(p, me());
      if (own.charged() > 0)
        device().launch(lane, Copy{params_.slice(s.at, own), gather.buffer.slice(at + s.cuts[std::size_t(me())], own)});
      s.full = gather.buffer.slice(at, parameters()[p].count());
      at = at + parameters()[p].count();
    }
    fabric().all_reduce(lane, mesh().world, gather.buffer);
  } else {
    gather.borders = borders_of(gather.parameters);
    const std::vector<Dim>& borders = *gather.borders;
    gather.buffer = alloc(lane, Band::gathered, borders.back(), type);
    const Dim begin = borders[std::size_t(me())], own = borders[std::size_t(me()) + 1] - begin;
    const int first = gather.parameters.front();
    Tensor from = gather.buffer.slice(begin, own);
    if (alone) {
      from = shard_to_send(lane, first);
      states_[first].full = gather.buffer.slice(none, parameters()[first].count());
    } else {
      lay_out_shards(lane, gather.parameters, from);
    }
    fabric().all_gather(lane, mesh().world, from, gather.buffer, Payload::data, gather.borders);
    if (alone) give_back(lane, from);
  }
  if (!alone && !fetches_by_all_reduce_) return;
  gather.views = gather.parameters.size();
  for (const int p : gather.parameters) states_[p].lender = states_[p].pending;
}

/// The host runs ahead of at most two waits for parameters (partitioned_param_coordinator.py, __max_ongoing_fetch_events). Their
/// events are on the stream that waits for NCCL's, so that gathers which nobody has waited for do not count.
void DeepSpeedStage3::limit_fetches() {
  constexpr std::size_t most = 2;
  if (ongoing_fetches_.size() <= most) return;
  device().synchronize(ongoing_fetches_.front());
  ongoing_fetches_.pop_front();
}

void DeepSpeedStage3::lay_out_shards(Lane lane, const std::vector<int>& parameters, Tensor to) {
  std::vector<Chunk> chunks;
  Dim at;
  for (const int p : parameters) {
    chunks.push_back({at, states_[p].at, padded(p, me())});
    at = at + padded(p, me());
  }
  device().launch(lane, ChunkCopy{params_, to, shared(std::move(chunks)), false, 1, false});
}

/// The first that waits for a gather gets all of its parameters out. The buffer goes when each of them has been waited for.
void DeepSpeedStage3::wait(int p) {
  const std::shared_ptr<Gather> gather = std::exchange(states_[p].pending, nullptr);
  --gather->unused;
  if (gather->buffer) limit_fetches();
  const bool copies = gather->buffer && gather->views == 0;
  if (!gather->arrived) {
    label(Verb::all_gather, gather->parameters.front());
    after(gather->over, Lane::compute, Edge::gather_before_use);
    if (copies) copy_out(*gather);
    if (gather->buffer)
      tell({parameters()[p].name + " is needed", copies ? "copies out of the flat buffer" : "compute waits", gather->buffer.bytes(),
            Lane::compute, "the gather of " + several(gather->parameters),
            copies ? "the flat buffer, when the last of them has been needed" : ""});
    for (const int q : gather->parameters) coordinator_->arrived(q);
    gather->arrived = true;
  }
  if (gather->buffer) ongoing_fetches_.push_back(gather->over);
  if (copies && gather->unused == 0) device().free(Lane::compute, gather->buffer);
}

/// On the compute stream, which waits for them anyway: in DeepSpeed they have a stream beside NCCL's, and there are no four here.
void DeepSpeedStage3::copy_out(const Gather& gather) {
  const std::vector<Dim>& borders = *gather.borders;
  std::vector<Dim> at(borders.begin(), borders.end() - 1);  // of the next parameter, in each rank's part
  for (const int p : gather.parameters) {
    State& s = states_[p];
    s.full = alloc(Lane::compute, Band::gathered, parameters()[p].count(), knobs().precision.param);
    std::vector<Chunk> chunks;
    for (int r = 0; r < world(); ++r) {
      chunks.push_back({s.cuts[std::size_t(r)], at[std::size_t(r)], piece(p, r)});
      at[std::size_t(r)] = at[std::size_t(r)] + padded(p, r);
    }
    device().launch(Lane::compute, ChunkCopy{gather.buffer, s.full, shared(std::move(chunks)), false, 1, false});
  }
}

/// Freed behind what uses it on the compute stream.
void DeepSpeedStage3::drop(int p) {
  State& s = states_[p];
  if (s.pending) wait(p);
  label(Verb::release, p);
  if (s.lender) {
    if (--s.lender->views == 0) device().free(Lane::compute, s.lender->buffer);
    s.lender.reset();
  } else if (s.full.in != params_.in) {
    device().free(Lane::compute, s.full);
  }
  s.full = {};
}

}  // namespace shardsim
