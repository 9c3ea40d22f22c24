// fsdp2: what the hooks of a group do in forward and backward. Names are those of FSDPParamGroup's functions.
#include "systems/fsdp2.h"

namespace shardsim {

namespace {

std::string in_words(const std::string& what, int group) { return what + " of group " + std::to_string(group); }

}  // namespace

/// Copy-in and all-gather. FSDP2 has a stream for each; on one (up to streams: 3), the next copy-in waits for this all-gather.
void Fsdp2::unshard(int index) {
  ParamGroup& group = groups_[std::size_t(index)];
  if (group.parameters.empty() || group.gathered || group.residence == Residence::unsharded) return;
  const bool from_pieces = group.residence == Residence::sharded_post_forward;
  const Buffer& buffer = from_pieces ? group.post_forward : group.buffer;
  const Lane copy = copy_in_lane(), gather = lane(Lane::gather);
  label(Verb::all_gather, index);
  if (from_pieces) device().wait(copy, group.reshard_event);
  const bool casts = types_.original != types_.compute;
  // Under a param_dtype, what goes in is cast into a buffer of its own first, be it pieces that have the type already.
  const Tensor cast = casts ? alloc(copy, Band::gathered, buffer.own(), types_.compute) : Tensor{};
  group.gathered = alloc(copy, Band::gathered, buffer.whole(), types_.compute);
  const Tensor mine = group.gathered.slice((*buffer.borders)[std::size_t(buffer.ranks.me)], buffer.own());
  for (std::size_t i = 0; i < group.parameters.size(); ++i) {
    const State& s = states_[std::size_t(group.parameters[i])];
    const auto& [at, size] = buffer.places[i];
    device().launch(copy, Copy{from_pieces ? s.piece : s.shard, (casts ? cast : mine).slice(at, size), i > 0});
  }
  if (casts) {
    device().launch(copy, Copy{cast, mine});
    device().free(copy, cast);
  }
  device().wait(gather, device().record(copy));
  fabric().all_gather(gather, buffer.ranks, mine, group.gathered, Payload::data, buffer.borders);
  group.gather_event = device().record(gather);
  tell({in_words("unshard", index), "all_gather", group.gathered.bytes(), gather,
        from_pieces ? "its copy-in of the pieces kept after forward" : "its copy-in", ""});
}

/// Copy-out: for a moment, the gathered buffer and the parameters both exist. In forward the buffer lives until the next group's
/// copy-out, so that the next copy-in need not wait for this copy-out; in backward it goes at once.
void Fsdp2::wait_for_unshard(int index, bool forward) {
  ParamGroup& group = groups_[std::size_t(index)];
  if (!group.gathered) return;
  label(Verb::all_gather, index);
  if (forward) free_last_gather();
  after(group.gather_event, Lane::compute, Edge::gather_before_use);
  const bool from_pieces = group.residence == Residence::sharded_post_forward;
  const Buffer& buffer = from_pieces ? group.post_forward : group.buffer;
  for (const int p : group.parameters) {
    State& s = states_[std::size_t(p)];
    const Dim count = parameters()[std::size_t(p)].count();
    const Dim padding(s.chunk * mesh_.shards.size - count.charged(), 0);
    s.full = alloc(Lane::compute, Band::gathered, count + padding, types_.compute);
  }
  for (std::size_t i = 0; i < group.parameters.size(); ++i) {
    const int p = group.parameters[i];
    const Tensor whole = states_[std::size_t(p)].full.slice(none, parameters()[std::size_t(p)].count());
    device().launch(Lane::compute, ChunkCopy{group.gathered, whole, buffer.chunks[i], false, 1, i > 0});
  }
  last_gather_ = {group.gathered, device().record(Lane::compute)};
  group.gathered = {};
  if (!forward) free_last_gather();
  if (from_pieces)
    for (const int p : group.parameters) device().free(Lane::compute, states_[std::size_t(p)].piece);
  group.residence = Residence::unsharded;
  tell({in_words("wait_for_unshard", index), "copy-out", 0, Lane::compute, "its all_gather",
        forward ? "the gathered buffer of the group before" : "the gathered buffer"});
}

void Fsdp2::free_last_gather() {
  if (!last_gather_.tensor) return;
  after(last_gather_.event, copy_in_lane(), Edge::release_before_gather);
  device().free(copy_in_lane(), last_gather_.tensor);
  last_gather_ = {};
}

void Fsdp2::to_sharded(ParamGroup& group) {
  if (group.residence != Residence::unsharded) return;
  for (const int p : group.parameters) device().free(Lane::compute, states_[std::size_t(p)].full);
  group.residence = Residence::sharded;
}

void Fsdp2::reshard_after_forward(int index) {
  ParamGroup& group = groups_[std::size_t(index)];
  const int k = reshard_[index + 1 == int(groups_.size())];
  if (k == 0 || group.residence != Residence::unsharded) return;
  label(Verb::release, index);
  tell({in_words("post_forward", index), "reshard", 0, Lane::compute, "", "its parameters"});
  if (k == 1) return to_sharded(group);
  for (std::size_t i = 0; i < group.parameters.size(); ++i) {
    State& s = states_[std::size_t(group.parameters[i])];
    const Chunk& chunk = (*group.post_forward.chunks[i])[std::size_t(group.post_forward.ranks.me)];
    s.piece = alloc(Lane::compute, Band::gathered, group.post_forward.places[i].second, types_.compute);
    if (chunk.count.charged() > 0)
      device().launch(Lane::compute, Copy{s.full.slice(chunk.in_whole, chunk.count), s.piece.slice(none, chunk.count)});
  }
  to_sharded(group);
  group.residence = Residence::sharded_post_forward;
  group.reshard_event = device().record(Lane::compute);
}

void Fsdp2::pre_forward(int module) {
  const int index = group_of(module);
  if (index < 0) return;
  if (module == 0) order(Lane::compute, copy_in_lane(), Edge::update_before_gather);
  unshard(index);
  wait_for_unshard(index, true);
  label(Verb::forward);
}

void Fsdp2::post_forward(int module) {
  const int index = group_of(module);
  if (index < 0) return;
  reshard_after_forward(index);
  groups_[std::size_t(index)].entries.push_back(post_forward_order_.size());
  post_forward_order_.push_back(index);
  if (module == 0) free_last_gather();
  label(Verb::forward);
}

void Fsdp2::pre_backward(int module) {
  const int index = group_of(module);
  if (index < 0) return;
  groups_[std::size_t(index)].in_backward = true;
  unshard(index);
  wait_for_unshard(index, false);
  backward_prefetch(index);
  label(Verb::backward);
}

/// The group that ran before this one in forward.
void Fsdp2::backward_prefetch(int index) {
  std::vector<std::size_t>& entries = groups_[std::size_t(index)].entries;
  if (entries.empty()) return;
  const std::size_t entry = entries.back();
  entries.pop_back();
  if (entry > 0) unshard(post_forward_order_[entry - 1]);
}

void Fsdp2::gradient_ready(int p) {
  State& s = states_[std::size_t(p)];
  const Tensor fresh = take_gradient(p);
  if (!s.grad) {
    s.grad = fresh;
    return;
  }
  device().launch(Lane::compute, Add{fresh, s.grad});
  device().free(Lane::compute, fresh);
}

void Fsdp2::post_backward(int module) {
  const int index = group_of(module);
  if (index < 0 || module == 0) return;  // nothing asks for the gradient of the root's inputs: its turn is at the end
  group_post_backward(index);
  label(Verb::backward);
}

void Fsdp2::group_post_backward(int index) {
  ParamGroup& group = groups_[std::size_t(index)];
  if (!group.in_backward || group.parameters.empty()) return;
  group.in_backward = false;
  const bool syncs = syncs_ || micro_batch().last;
  label(Verb::backward, index);
  for (const int p : group.parameters) {
    State& s = states_[std::size_t(p)];
    if (!s.accumulated) continue;
    device().launch(Lane::compute, Add{s.grad, s.accumulated});
    device().free(Lane::compute, s.grad);
    s.grad = {};
  }
  if (reshards_after_backward_ || micro_batch().last) to_sharded(group);
  if (syncs) return foreach_reduce(index);
  for (const int p : group.parameters) {
    State& s = states_[std::size_t(p)];
    if (!s.grad || s.grad.dtype() == types_.reduce) continue;
    s.accumulated = alloc(Lane::compute, Band::grad, s.grad.count(), types_.reduce);
    device().launch(Lane::compute, Copy{s.grad, s.accumulated});
    device().free(Lane::compute, s.grad);
    s.grad = {};
  }
}

void Fsdp2::foreach_reduce(int index) {
  ParamGroup& group = groups_[std::size_t(index)];
  const Lane reduce = reduce_lane();
  const Buffer& buffer = group.buffer;
  label(Verb::reduce_scatter, index);
  if (last_reduce_.tensor) {
    after(last_reduce_.event, Lane::compute, Edge::reduction_before_backward);
    device().free(Lane::compute, last_reduce_.tensor);
  }
  const Tensor input = alloc(Lane::compute, Band::bucket, buffer.whole(), types_.reduce);
  // The copy-in's kernel widens, but does not narrow: fp32 gradients that are reduced in bf16 pass through a buffer of their own.
  const bool narrows = bytes_of(types_.reduce) < bytes_of(knobs().precision.grad);
  const Tensor copied_in = narrows ? alloc(Lane::compute, Band::bucket, buffer.whole(), knobs().precision.grad) : input;
  // ReduceOp.AVG: NCCL multiplies what comes in by 1 / n, inside of its kernel. Here the copy-in does, for shards and replicas. In
  // fp16, FSDP2 divides itself: about half of the factor before and half after, so that neither side overflows.
  int before = rank().world;
  if (types_.reduce == Dtype::fp16)
    for (before = 1; rank().world % before == 0 && rank().world / before > before;) before *= 2;
  const double after_sum = double(before) / rank().world;
  for (std::size_t i = 0; i < group.parameters.size(); ++i) {
    State& s = states_[std::size_t(group.parameters[i])];
    const Tensor grad = s.accumulated ? s.accumulated : s.grad;
    device().launch(Lane::compute, ChunkCopy{copied_in, grad, buffer.chunks[i], true, 1.0 / before, i > 0});
  }
  if (narrows) {
    device().launch(Lane::compute, Copy{copied_in, input});
    device().free(Lane::compute, copied_in);
  }
  for (const int p : group.parameters) {
    State& s = states_[std::size_t(p)];
    device().free(Lane::compute, s.accumulated ? s.accumulated : s.grad);
    s.accumulated = s.grad = {};
  }
  order(Lane::compute, reduce, Edge::gradient_before_reduction);
  Tensor output = alloc(reduce, Band::grad, buffer.own(), types_.reduce);
  fabric().reduce_scatter(reduce, buffer.ranks, input, output, Payload::data, buffer.borders);
  last_reduce_ = {input, device().record(reduce)};
  tell({in_words("post_backward", index), "reduce_scatter", input.bytes(), reduce, "its copy-in on compute",
        "its parameters and gradients, and the buffer of the reduction before"});
  if (mesh_.replicas.size > 1) {
    if (group.partial) {
      device().launch(reduce, Add{group.partial, output});
      device().free(reduce, group.partial);
      group.partial = {};
    }
    if (!all_reduces_ && !micro_batch().last) {
      group.partial = output;
      return;
    }
    label(Verb::all_reduce, index);
    fabric().all_reduce(reduce, mesh_.replicas, output);
    tell({in_words("post_backward", index), "all_reduce over the replicas", output.bytes(), reduce, "its reduce_scatter", ""});
  }
  if (after_sum != 1) device().launch(reduce, Scale{output, output, after_sum, 0});
  if (types_.reduce != types_.original) {
    const Tensor cast = alloc(reduce, Band::grad, buffer.own(), types_.original);
    device().launch(reduce, Copy{output, cast});
    // What the all-reduce's own stream still works on is held to the end of the backward pass.
    if (mesh_.replicas.size > 1) group.all_reduced = output;
    else device().free(reduce, output);
    output = cast;
  }
  accumulate(group, output);
  group.reduce_event = device().record(reduce);
}

/// The sharded gradients are views of what was reduced, until the next step.
void Fsdp2::accumulate(ParamGroup& group, Tensor fresh) {
  if (!group.reduced) {
    group.reduced = fresh;
    return;
  }
  for (const auto& [at, size] : group.buffer.places)
    device().launch(reduce_lane(), Add{fresh.slice(at, size), group.reduced.slice(at, size)});
  device().free(reduce_lane(), fresh);
}

/// The root's final callback: what has not had its turn, then compute waits for all that reduces.
void Fsdp2::end_backward() {
  group_post_backward(int(groups_.size()) - 1);
  label(Verb::backward);
  for (ParamGroup& group : groups_) {
    after(group.reduce_event, Lane::compute, Edge::reduction_before_update);
    group.entries.clear();
    if (group.all_reduced) device().free(reduce_lane(), group.all_reduced);
    group.all_reduced = {};
  }
  post_forward_order_.clear();
  if (last_reduce_.tensor) {
    after(last_reduce_.event, Lane::compute, Edge::reduction_before_backward);
    device().free(Lane::compute, last_reduce_.tensor);
    last_reduce_ = {};
  }
  tell({"backward is over", "compute waits for all groups", 0, Lane::compute, "all reductions", "the last reduction's buffer"});
}

}  // namespace shardsim
