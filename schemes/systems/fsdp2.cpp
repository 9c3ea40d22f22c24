// fsdp2: its options, how parameters are cut, and the update of the shards.
#include "systems/fsdp2.h"

#include <algorithm>

#include "systems/wrapping.h"

namespace shardsim {

std::vector<Option> Fsdp2::options() {
  using Kind = Option::Kind;
  const std::vector<std::string> types{"None", "bf16", "fp32"};
  return {{.name = "reshard_after_forward",
           .kind = Kind::integer,
           .standard = "None",
           .about = "after forward, parameters are freed (true), kept (false), or kept by groups of so many ranks; None: true for "
                    "blocks, false for the root",
           .words = {"None", "true", "false"},
           .low = 1},
          {.name = "param_dtype",
           .standard = "None",
           .about = "MixedPrecisionPolicy: type of gathers and of compute; None: the scenario's precision.param, and nothing else "
                    "fits. With an fp32 master the shards are the master",
           .words = types},
          {.name = "reduce_dtype",
           .standard = "None",
           .about = "MixedPrecisionPolicy: type of the reduce-scatter; None: the scenario's precision.reduce",
           .words = types},
          {.name = "output_dtype",
           .standard = "None",
           .about = "MixedPrecisionPolicy: type of a group's outputs; None, or what the model computes in",
           .words = types},
          {"cast_forward_inputs", Kind::boolean, "true",
           "MixedPrecisionPolicy: inputs become param_dtype; the models here have no others, so nothing is left to cast"},
          {"set_requires_gradient_sync", Kind::boolean, "true",
           "what is called before each micro-batch but the last; false: gradients stay whole until the last one"},
          {"set_requires_all_reduce", Kind::boolean, "true",
           "the same, of a 2-D mesh; false: gradients are reduced over the shards only until the last micro-batch"},
          {"set_reshard_after_backward", Kind::boolean, "true",
           "the same; false: parameters stay gathered from a micro-batch's backward to the next forward"}};
}

void Fsdp2::read_options() {
  types_ = MixedPrecision::of(knobs().precision, options_);
  if (const std::string wrong = types_.contradiction(options_, {"param_dtype", "output_dtype"}); !wrong.empty()) refuse(wrong);
  syncs_ = options_.boolean("set_requires_gradient_sync");
  all_reduces_ = options_.boolean("set_requires_all_reduce");
  reshards_after_backward_ = options_.boolean("set_reshard_after_backward");

  const int world = rank().world, shards = sharers(knobs(), world);
  mesh_ = Mesh::of(rank().index, world, shards);
  const std::string& reshard = options_.text("reshard_after_forward");
  if (reshard == "None") return;
  const std::int64_t k = reshard == "true" ? shards : reshard == "false" ? 1 : options_.integer("reshard_after_forward");
  if (k > shards || shards % k != 0)
    refuse("reshard_after_forward: " + reshard + " has to be a factor of the " + std::to_string(shards) + " shards");
  // As in fully_shard: 1 means false, all shards mean true.
  reshard_[0] = reshard_[1] = reshard == "true" || (k == shards && k > 1) ? 1 : k == 1 ? 0 : int(k);
}

/// fully_shard(block) for every block, then fully_shard(model): what is left is the root's.
void Fsdp2::make_groups() {
  const Wrapped wrapped = wrapped_by_block(modules());
  groups_by_module_ = places_of(wrapped, modules().size());
  groups_.resize(wrapped.size());
  for (int p = 0; p < int(parameters().size()); ++p)
    groups_[std::size_t(unit_around(parameters()[std::size_t(p)].module, modules(), groups_by_module_))].parameters.push_back(p);
  for (ParamGroup& group : groups_) {
    group.buffer = make_buffer(group, mesh_.shards);
    const int k = reshard_[&group == &groups_.back()], me = mesh_.shards.me;
    if (k > 1) group.post_forward = make_buffer(group, {mesh_.shards.first + me / k * k, 1, k, me % k});
  }
}

/// Over fewer ranks than there are shards, a slice is several chunks.
Fsdp2::Buffer Fsdp2::make_buffer(const ParamGroup& group, Group ranks) const {
  Buffer buffer{ranks, {}, {}, {}};
  std::vector<Dim> borders;
  std::vector<std::vector<Chunk>> chunks(group.parameters.size());
  Dim at;
  for (int rank = 0; rank < ranks.size; ++rank) {
    borders.push_back(at);
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      const int p = group.parameters[i];
      const Dim whole = parameters()[std::size_t(p)].count();
      const std::int64_t slice = states_[std::size_t(p)].chunk * (mesh_.shards.size / ranks.size);
      const auto border = [&](int r) { return whole.part(std::min(r * slice, whole.charged())); };
      const Dim count = border(rank + 1) - border(rank), padded = count + Dim(slice - count.charged(), 0);
      chunks[i].push_back({border(rank), at, count});
      if (rank == ranks.me) buffer.places.push_back({at - borders.back(), padded});
      at = at + padded;
    }
  }
  borders.push_back(at);
  buffer.borders = std::make_shared<const std::vector<Dim>>(std::move(borders));
  for (const std::vector<Chunk>& of_one : chunks) buffer.chunks.push_back(shared(of_one));
  return buffer;
}

void Fsdp2::make_bands() {
  read_options();
  const int n = mesh_.shards.size;
  states_.resize(parameters().size());
  for (std::size_t p = 0; p < states_.size(); ++p) {
    const auto& parameter = parameters()[p];
    const bool is_vector = parameter.rows.charged() == 1;
    const std::int64_t length = (is_vector ? parameter.cols : parameter.rows).charged();
    states_[p].chunk = (length + n - 1) / n * (parameter.count().charged() / length);
  }
  make_groups();
  for (const ParamGroup& group : groups_)
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      const int p = group.parameters[i];
      State& s = states_[std::size_t(p)];
      const Chunk& mine = (*group.buffer.chunks[i])[std::size_t(mesh_.shards.me)];
      s.begin = mine.in_whole, s.own = mine.count;
      label(Verb::bind, p);
      s.shard = alloc(Lane::compute, Band::param, group.buffer.places[i].second, types_.original);
      upload_theta0(s.shard, p, s.begin, s.own);
      if (s.own.charged() == 0) continue;
      for (Tensor* moment : {&s.m, &s.v}) {
        *moment = alloc(Lane::compute, Band::opt, s.own, Dtype::fp32);
        device().upload(Lane::compute, *moment, HostView{&rank().theta0, none, none});
      }
    }
}

Tensor Fsdp2::parameter(int p) {
  const auto& parameter = parameters()[std::size_t(p)];
  return states_[std::size_t(p)].full.matrix(none, parameter.rows, parameter.cols);
}

void Fsdp2::update() {
  std::vector<AdamTensors> list;
  std::vector<Tensor> gradients;
  for (const ParamGroup& group : groups_)
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      const int p = group.parameters[i];
      const State& s = states_[std::size_t(p)];
      if (s.own.charged() == 0) continue;
      const Tensor own = s.shard.slice(none, s.own);
      list.push_back({p, group.reduced.slice(group.buffer.places[i].first, s.own), own, s.m, s.v, own});
    }
  for (const AdamTensors& of : list) gradients.push_back(of.grad);
  const Tensor factor =
      update_factor(gradients, mesh_.shards);  // clip_grad_norm_ on DTensors; GradScaler's found_inf goes the same way
  launch_adam(list, factor);
  // zero_grad(): the gradients are the reduce stream's memory, and Adam reads them.
  device().wait(reduce_lane(), device().record(Lane::compute));
  for (ParamGroup& group : groups_)
    if (group.reduced) {
      device().free(reduce_lane(), group.reduced);
      group.reduced = {};
    }
  if (factor) device().free(Lane::compute, factor);
}

void Fsdp2::append_theta(std::vector<ThetaPiece>& pieces) {
  pieces.resize(states_.size());
  for (std::size_t p = 0; p < states_.size(); ++p) {
    const State& s = states_[p];
    pieces[p] = {int(p), s.begin, s.own, {}};
    if (s.own.charged() > 0) device().download(Lane::compute, s.shard.slice(none, s.own), pieces[p].values);
  }
}

}  // namespace shardsim
