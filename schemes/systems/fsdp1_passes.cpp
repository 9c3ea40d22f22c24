// fsdp1: what the hooks of a unit do in forward and backward. Names are those of _runtime_utils.py.
#include "systems/fsdp1.h"

namespace shardsim {

namespace {

constexpr std::size_t most_inflight = 2;  // the limiter's _max_num_inflight_all_gathers

}  // namespace

/// Once two freed units are queued, the host waits for the older one's memory. What a step leaves in the queue delays the next
/// one's waits, as in FSDP itself: one more unit is in memory then.
void Fsdp1::limit_rate() {
  if (!limits_ || free_events_.size() < most_inflight) return;
  device().synchronize(free_events_.front());
  free_events_.pop_front();
}

/// Without sharding there is nothing to gather, but parameters of another type are cast all the same.
void Fsdp1::unshard(int index, const std::string& trigger) {
  Handle& handle = at(index);
  const Lane gather = gather_lane();
  const bool gathers = sharded_ && !handle.full_param;
  label(Verb::all_gather, index);
  if (types_.original != types_.compute && (gathers || !sharded_) && !handle.mp_shard)
    handle.mp_shard = cast(gather, handle.shard, types_.compute);
  limit_rate();
  if (!gathers) return;
  handle.full_param = alloc(gather, Band::gathered, handle.borders->back(), types_.compute);
  in_turn(gather, [&] {
    const Tensor from = handle.mp_shard ? handle.mp_shard : handle.shard;
    fabric().all_gather(gather, mesh_.shards, from, handle.full_param, Payload::data, handle.borders);
  });
  tell({trigger, "all_gather of unit " + std::to_string(index), handle.full_param.bytes(), gather,
        std::string(limits_ ? "the host, until an earlier unit's memory is free; " : "") + "the collective before",
        handle.mp_shard ? "its cast shard" : ""});
  if (!handle.mp_shard) return;
  device().free(gather, handle.mp_shard);
  handle.mp_shard = {};
}

void Fsdp1::wait_for_unshard() { order(gather_lane(), Lane::compute, Edge::gather_before_use); }

/// The gather stream does not wait for this: its memory's reuse does.
void Fsdp1::reshard(int index, bool frees, const std::string& trigger) {
  Handle& handle = at(index);
  label(Verb::release, index);
  if (frees) {
    device().free(Lane::compute, handle.full_param);
    handle.full_param = {};
    if (limits_) free_events_.push_back(device().record(Lane::compute));
    tell({trigger, "reshard", 0, Lane::compute, "", "its parameters"});
  }
  if (handle.mp_shard) {
    device().free(Lane::compute, handle.mp_shard);
    handle.mp_shard = {};
  }
  handle.prefetched = false;
}

void Fsdp1::prefetch(int index, const std::string& trigger) {
  unshard(index, trigger + ", ahead of use");
  at(index).prefetched = true;
}

/// The unit that ended before this one in forward.
void Fsdp1::prefetch_for_backward(int index, const std::string& trigger) {
  const int position = at(index).post_forward - 1;
  if (position < 0) return;
  const int before = post_forward_order_[std::size_t(position)];
  if (at(before).needs_backward_unshard && !at(before).prefetched) prefetch(before, trigger);
}

void Fsdp1::pre_forward(int module) {
  if (module == 0) order(Lane::compute, gather_lane(), Edge::update_before_gather);
  const int index = handle_of(module);
  if (index < 0) return;
  Handle& handle = at(index);
  const bool is_first_pass = step() == 0 && micro_batch().first;
  if (is_first_pass && handle.pre_forward < 0) {
    handle.pre_forward = int(pre_forward_order_.size());
    pre_forward_order_.push_back(index);
  }
  if (!handle.prefetched) unshard(index, in_words("pre_forward", index));
  wait_for_unshard();
  const std::size_t next = std::size_t(handle.pre_forward) + 1;
  if (forward_prefetch_ && !is_first_pass && next < pre_forward_order_.size() && !at(pre_forward_order_[next]).prefetched)
    prefetch(pre_forward_order_[next], in_words("pre_forward", index));
  label(Verb::forward);
}

/// The root's parameters are kept: backward needs them at once.
void Fsdp1::post_forward(int module) {
  const int index = handle_of(module);
  if (index < 0) return;
  Handle& handle = at(index);
  reshard(index, reshards_after_forward_ && module != 0, in_words("post_forward", index));
  if (handle.post_forward < 0) {
    handle.post_forward = int(post_forward_order_.size());
    post_forward_order_.push_back(index);
  }
  handle.needs_backward_unshard = true;
  label(Verb::forward);
}

void Fsdp1::pre_backward(int module) {
  const int index = handle_of(module);
  if (index < 0) return;
  Handle& handle = at(index);
  if (!handle.prefetched) unshard(index, in_words("pre_backward", index));
  wait_for_unshard();
  handle.needs_backward_unshard = false;
  handle.in_backward = true;
  Tensor& saved = handle.saved_grad_shard;
  if (saved && saved.dtype() != types_.original)
    saved = converted(Lane::compute, saved, types_.original);  // low precision is for the optimizer only
  if (backward_prefetch_ == Prefetch::pre) prefetch_for_backward(index, in_words("pre_backward", index));
  label(Verb::backward);
}

void Fsdp1::post_backward(int module) {
  const int index = handle_of(module);
  if (index < 0) return;
  post_backward_hook(index);
  label(Verb::backward);
}

/// Runs when the gradient of the flat parameter is complete.
void Fsdp1::post_backward_hook(int index) {
  Handle& handle = at(index);
  handle.in_backward = false;
  label(Verb::backward, index);
  complete_gradient(handle);
  reshard(index, sharded_ && (syncs() || reshards_after_forward_), in_words("post_backward", index));
  if (backward_prefetch_ == Prefetch::post) prefetch_for_backward(index, in_words("post_backward", index));
  if (syncs()) reduce_grad(index);
}

/// Embeddings alone in a unit have had no post-backward: nothing asks for the gradient of their inputs.
void Fsdp1::end_backward() {
  for (Handle& handle : handles_)
    if (handle.in_backward) post_backward_hook(int(&handle - handles_.data()));
  label(Verb::backward);
  if (syncs()) {
    order(reduce_lane(), Lane::compute, Edge::reduction_before_update);
    tell({"backward is over", "compute waits for all reductions", 0, Lane::compute, "the reduce stream", ""});
  }
  for (Handle& handle : handles_) {
    handle.post_forward = -1;
    handle.prefetched = handle.needs_backward_unshard = false;
    Tensor& grad = handle.reduced(sharded_);
    if (keeps_low_precision_ && syncs() && grad.dtype() != types_.compute) grad = converted(Lane::compute, grad, types_.compute);
  }
  post_forward_order_.clear();
}

}  // namespace shardsim
