// deepspeed_stage12: gradients on their way through the buckets.
#include "systems/deepspeed_stage12.h"

#include <algorithm>

namespace shardsim {

/// At the first gradient of a backward pass, so on top of what is alive then.
void DeepSpeedStage12::set_up_buckets() {
  if (buckets_[0] || !contiguous_) return;
  // No more real numbers can come than the model has; the charged size is the option's.
  const Dim all = borders()->back();
  const Dim size = all + Dim(bucket_elements_ - all.charged(), 0);
  label(Verb::backward);
  for (int i = 0; i < (overlaps_ ? 2 : 1); ++i) buckets_[i] = alloc(Lane::compute, Band::bucket, size, knobs().precision.grad);
  active_ = 0;
  tell({"first gradient of backward", overlaps_ ? "two buckets are allocated" : "a bucket is allocated",
        (overlaps_ ? 2 : 1) * buckets_[0].bytes(), Lane::compute, "", ""});
}

void DeepSpeedStage12::gradient_ready(int p) {
  State& s = states_[p];
  set_up_buckets();
  label(Verb::backward, p);
  const Tensor fresh = take_gradient(p);
  if (s.grad) {  // stage 1, an earlier micro-batch's: AccumulateGrad adds
    device().launch(Lane::compute, Add{fresh, s.grad});
    device().free(Lane::compute, fresh);
  } else {
    s.grad = fresh, s.is_view = false;
  }
  if (drops_foreign_ || (overlaps_ && micro_batch().last)) add_to_bucket(p);
}

void DeepSpeedStage12::add_to_bucket(int p) {
  State& s = states_[p];
  const Dim count = parameters()[p].count();
  if ((filled_ + count).charged() > bucket_elements_) {
    flush("the gradient of " + parameters()[p].name + " does not fit");
    if (overlaps_) active_ = 1 - active_;
  }
  label(Verb::backward, p);
  too_large_ = count.charged() > bucket_elements_;
  s.in_bucket = filled_;
  if (contiguous_ && !too_large_) {
    const Tensor view = buckets_[active_].slice(filled_, count);
    device().launch(Lane::compute, Copy{s.grad, view});
    device().free(Lane::compute, s.grad);
    s.grad = view, s.is_view = true;
  }
  filled_ = filled_ + count;
  members_.push_back(p);
}

void DeepSpeedStage12::flush(const std::string& trigger) {
  if (members_.empty()) return;
  if (!contiguous_) reduce_scattered(trigger);
  else average(too_large_ ? states_[members_.front()].grad : buckets_[active_].slice(none, filled_), trigger);
  for (const int p : members_) {
    if (states_[p].owned && contiguous_) keep_own_gradient(p);
    else if (!states_[p].owned && drops_foreign_) {
      if (contiguous_ || !overlaps_) drop_gradient(p, reduction());
      else reduced_foreign_.push_back(p);
    }
  }
  members_.clear(), filled_ = none, too_large_ = false;
  ++reductions_;
}

void DeepSpeedStage12::average(Tensor bucket, const std::string& trigger) {
  const Lane reduce = reduction();
  const bool to_owners = routes_slices_ && reduces_to_owners_;
  label(to_owners ? Verb::reduce : Verb::all_reduce, reductions_);
  order(Lane::compute, reduce, Edge::gradient_before_reduction);
  order(reduce, Lane::compute, Edge::reduction_before_backward);  // the reverse wait: for the reductions before this one
  tell({trigger, to_owners ? "a reduce to each owner of a slice" : "all_reduce", bucket.bytes(), reduce,
        overlaps_ ? "compute; and compute for earlier reductions" : "", overlaps_ ? "" : "the gradients' own tensors"});
  if (!routes_slices_) return all_reduce(reduce, bucket, true);
  scale(reduce, bucket, 1.0 / rank().world);
  if (to_owners) return reduce_to_owners(bucket);
  std::vector<Slice> sent;
  std::int64_t elements = 0;
  for (const Slice& slice : slices_of_bucket()) {
    sent.push_back(slice);
    elements += slice.count.charged();
    if (elements <= bucket_elements_) continue;  // only a parameter that is larger than a bucket gets beyond
    reduce_slices(bucket, sent);
    sent.clear(), elements = 0;
  }
  if (!sent.empty()) reduce_slices(bucket, sent);
}

void DeepSpeedStage12::reduce_scattered(const std::string& trigger) {
  const Lane reduce = reduction();
  label(Verb::all_reduce, reductions_);
  if (overlaps_) device().synchronize();
  for (const int p : reduced_foreign_) drop_gradient(p, Lane::compute);
  reduced_foreign_.clear();
  std::vector<Tensor> views;
  for (const int p : members_) views.push_back(states_[p].grad);
  const bool copies = views.size() > 1;  // flattening one tensor only changes its shape
  const Tensor flat = copies ? flattened(reduce, Band::bucket, views) : views.front();
  scale(reduce, flat, 1.0 / rank().world);
  all_reduce(reduce, flat, false);
  tell({trigger, "all_reduce", flat.bytes(), reduce, overlaps_ ? "the device: the host waits before" : "", ""});
  if (!copies) return;
  Dim at;
  for (const Tensor& view : views) {
    device().launch(reduce, Copy{flat.slice(at, view.count()), view});
    at = at + view.count();
  }
  device().free(reduce, flat);
}

/// By owner, in the order in which they lie in the bucket; what is next to a piece of the same owner is one with it.
std::vector<DeepSpeedStage12::Slice> DeepSpeedStage12::slices_of_bucket() const {
  std::vector<Slice> slices;
  const std::vector<Dim>& cuts = *borders();
  for (const int p : members_) {
    const Dim begin = begin_of(p), count = parameters()[p].count();
    for (int owner = int(begin.charged() / partition_size().charged()); owner < rank().world; ++owner) {
      const auto [at, size] = overlap(begin, count, cuts[owner], cuts[owner + 1] - cuts[owner]);
      if (size.charged() == 0) break;
      if (!slices.empty() && slices.back().owner == owner) slices.back().count = slices.back().count + size;
      else slices.push_back({owner, states_[p].in_bucket + (at - begin), size});
    }
  }
  return slices;
}

void DeepSpeedStage12::reduce_to_owners(Tensor bucket) {
  std::vector<std::vector<Slice>> by_owner;  // in the order in which the owners come first
  for (const Slice& slice : slices_of_bucket()) {
    const auto same = [&](const std::vector<Slice>& list) { return list.front().owner == slice.owner; };
    const auto found = std::find_if(by_owner.begin(), by_owner.end(), same);
    if (found == by_owner.end()) by_owner.push_back({slice});
    else found->push_back(slice);
  }
  for (const std::vector<Slice>& slices : by_owner) {
    if (overlaps_) device().synchronize();
    reduce_slices(bucket, slices, slices.front().owner);
  }
}

void DeepSpeedStage12::reduce_slices(Tensor bucket, const std::vector<Slice>& slices, std::optional<int> owner) {
  const Lane lane = reduction();
  const auto sum = [&](Tensor of) { owner ? reduce(lane, of, *owner) : all_reduce(lane, of, false); };
  if (slices.size() == 1) return sum(bucket.slice(slices[0].begin, slices[0].count));
  std::vector<Tensor> views;
  for (const Slice& slice : slices) views.push_back(bucket.slice(slice.begin, slice.count));
  const Held copy(device(), lane, flattened(lane, Band::bucket, views));  // of all owners: as large as the bucket
  sum(*copy);
  Dim at;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (slices[i].owner == mesh().world.me) device().launch(lane, Copy{copy->slice(at, slices[i].count), views[i]});
    at = at + slices[i].count;
  }
}

/// All of the parameter's gradient, though a border may cut it: the next bucket overwrites this one.
void DeepSpeedStage12::keep_own_gradient(int p) {
  State& s = states_[p];
  const Lane reduce = reduction();
  const Dim count = parameters()[p].count();
  if (!partition_grads_) {
    partition_grads_ = alloc(reduce, Band::grad, partition_grads_size_, knobs().precision.grad);
    partition_grads_filled_ = none;
  }
  s.in_partition_grads = partition_grads_filled_;
  const Tensor kept = partition_grads_.slice(partition_grads_filled_, count);
  device().launch(reduce, Copy{s.grad, kept});
  drop_gradient(p, reduce);
  s.grad = kept, s.is_view = true;
  partition_grads_filled_ = partition_grads_filled_ + count;
}

/// What has storage of its own is freed on the lane that used it last; DeepSpeed leaves that to luck (no record_stream).
void DeepSpeedStage12::drop_gradient(int p, Lane lane) {
  State& s = states_[p];
  if (s.grad && !s.is_view) device().free(lane, s.grad);
  s.grad = {}, s.is_view = false;
}

void DeepSpeedStage12::end_backward() {
  if (!drops_foreign_ && !micro_batch().last) return;  // stage 1 keeps all gradients till the last micro-batch
  if (!drops_foreign_ && !overlaps_)
    for (const int p : in_module_order()) add_to_bucket(p);
  finish_reductions();
}

void DeepSpeedStage12::finish_reductions() {
  flush("backward is over");
  reductions_ = 0;
  if (overlaps_ && knobs().omitted != Edge::reduction_before_update) device().synchronize();
  label(Verb::backward);
  reduced_foreign_.clear();
  sum_up();
  for (int p = 0; p < int(states_.size()); ++p) drop_gradient(p, Lane::compute);
  for (Tensor& bucket : buckets_) {
    if (bucket) device().free(Lane::compute, bucket);
    bucket = {};
  }
  tell({"backward is over", overlaps_ ? "the host waits for the device" : "gradients of the own partition are kept", 0,
        Lane::compute, overlaps_ ? "everything" : "", contiguous_ ? "the buckets" : "others' gradients"});
}

/// The first micro-batch's gradients are kept as they are, those that follow are added to them.
void DeepSpeedStage12::sum_up() {
  const bool first = own().empty() || !states_[own().front().parameter].sum;
  if (first) summed_grads_ = partition_grads_;
  for (const Own& piece : own()) {
    State& s = states_[piece.parameter];
    if (first) s.sum = s.grad;
    else device().launch(Lane::compute, Add{s.grad, s.sum});
    if (first && !s.is_view) s.grad = {};  // not to be dropped: its storage has become the sum's
  }
  if (!first && partition_grads_) device().free(Lane::compute, partition_grads_);
  partition_grads_ = {};
}

}  // namespace shardsim
