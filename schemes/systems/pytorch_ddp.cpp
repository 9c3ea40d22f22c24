// pytorch_ddp: buckets, their order, and what the hooks do.
#include "systems/pytorch_ddp.h"

#include <algorithm>
#include <numeric>

namespace shardsim {

namespace {

constexpr std::int64_t mib = 1 << 20;

}  // namespace

std::vector<Option> PytorchDdp::options() {
  using Kind = Option::Kind;
  return {{.name = "bucket_cap_mb",
           .kind = Kind::number,
           .standard = "None",
           .about = "MiB of a bucket; None: 25, and 1 for the first",
           .words = {"None"},
           .low = 0},
          {"gradient_as_bucket_view", Kind::boolean, "false", "gradients are views of the buckets after the first iteration"},
          {"static_graph", Kind::boolean, "false", "the first iteration has buckets too, all reduced at its end"},
          {"find_unused_parameters", Kind::boolean, "false", "buckets from the start, and a map of used parameters is reduced"}};
}

PytorchDdp::PytorchDdp(const Options& options)
    : cap_(options.text("bucket_cap_mb") == "None" ? 25 * mib : std::int64_t(options.number("bucket_cap_mb") * mib)),
      first_cap_(options.text("bucket_cap_mb") == "None" ? mib : cap_),
      bucket_view_(options.boolean("gradient_as_bucket_view")),
      static_graph_(options.boolean("static_graph")),
      find_unused_(options.boolean("find_unused_parameters")) {}

void PytorchDdp::make_opt(int p) {
  const Precision& precision = knobs().precision;
  State& s = state(p);
  const Dim count = parameters()[p].count();
  label(Verb::bind, p);
  s.opt = alloc(Lane::compute, Band::opt, precision.opt_vectors() * count, Dtype::fp32);
  device().upload(Lane::compute, s.opt, HostView{&rank().theta0, none, none});
  if (precision.has_master()) upload_theta0(s.opt.slice(none, count), p, none, count);
}

void PytorchDdp::make_bands() {
  states_.resize(parameters().size());
  for (int p = 0; p < int(states_.size()); ++p) {
    label(Verb::bind, p);
    state(p).param = make_param(p);
    upload_theta0(state(p).param, p, none, parameters()[p].count());
    if (updates(p)) make_opt(p);
  }
  std::vector<int> reversed(parameters().size());
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  if (static_graph_ || find_unused_) make_buckets(cut(reversed));
  else make_buckets({reversed});
}

std::vector<std::vector<int>> PytorchDdp::cut(const std::vector<int>& order) const {
  std::vector<std::vector<int>> buckets(1);
  std::int64_t bytes = 0;
  for (const int p : order) {
    buckets.back().push_back(p);
    bytes += parameters()[p].count().charged() * bytes_of(knobs().precision.grad);
    if (bytes < (buckets.size() == 1 ? first_cap_ : cap_)) continue;
    buckets.emplace_back();
    bytes = 0;
  }
  if (buckets.back().empty()) buckets.pop_back();
  return buckets;
}

/// The new ones are there before the old ones go, as in the reducer.
void PytorchDdp::make_buckets(const std::vector<std::vector<int>>& cuts) {
  std::vector<Bucket> old = std::move(buckets_);
  buckets_.clear();
  for (const std::vector<int>& members : cuts) {
    Bucket bucket{members, {}, 0, {}};
    Dim count;
    for (const int p : members) {
      states_[p].bucket = int(buckets_.size()), states_[p].at = count;
      count = count + parameters()[p].count();
    }
    label(Verb::bind, int(buckets_.size()));
    bucket.flat = alloc(Lane::compute, Band::bucket, count, knobs().precision.grad);
    buckets_.push_back(bucket);
  }
  for (const Bucket& bucket : old) device().free(Lane::compute, bucket.flat);
}

Tensor PytorchDdp::view(int p) const {
  const Parameter& parameter = parameters()[p];
  return buckets_[states_[p].bucket].flat.matrix(states_[p].at, parameter.rows, parameter.cols);
}

Tensor PytorchDdp::parameter(int p) { return states_[p].param.matrix(none, parameters()[p].rows, parameters()[p].cols); }

void PytorchDdp::begin_micro_batch() {
  if (step() > 0 && !rebuilt_ && !find_unused_) {
    tell({"second iteration begins", "buckets rebuilt in the order of arrival", 0, Lane::compute, "", "the buckets of the first"});
    make_buckets(cut(arrivals_));
    rebuilt_ = true;
  }
  next_ = 0;
  for (Bucket& bucket : buckets_) bucket.pending = int(bucket.parameters.size());
}

void PytorchDdp::gradient_ready(int p) {
  State& s = states_[p];
  label(Verb::backward, p);
  const Tensor fresh = take_gradient(p);
  if (s.grad) {  // an earlier micro-batch's: AccumulateGrad adds
    device().launch(Lane::compute, Add{fresh, s.grad});
    device().free(Lane::compute, fresh);
  } else {
    s.grad = fresh;
  }
  if (!micro_batch().last) return;  // no_sync
  if (step() == 0) arrivals_.push_back(p);
  device().launch(Lane::compute, Scale{s.grad, view(p), 1.0 / rank().world, 0});
  if (bucket_view_) {
    device().free(Lane::compute, s.grad);
    s.grad = view(p);
  }
  --buckets_[s.bucket].pending;
  if (!static_graph_ || step() > 0) launch_ready_buckets();
}

/// Strictly in order: a full bucket waits for those before it.
void PytorchDdp::launch_ready_buckets() {
  const Lane reduce = lane(Lane::reduce);
  for (; next_ < buckets_.size() && buckets_[next_].pending == 0; ++next_) {
    Bucket& bucket = buckets_[next_];
    label(Verb::all_reduce, int(next_));
    order(Lane::compute, reduce, Edge::gradient_before_reduction);
    fabric().all_reduce(reduce, mesh().world, bucket.flat);
    bucket.reduced = device().record(reduce);
    tell({"bucket " + std::to_string(next_) + " is full, by the gradient of " + parameters()[bucket.parameters.back()].name,
          "all_reduce", bucket.flat.bytes(), reduce, "compute, up to that gradient", ""});
  }
}

void PytorchDdp::end_backward() {
  if (!micro_batch().last) return;
  launch_ready_buckets();
  buckets_launched();
  if (find_unused_) {
    label(Verb::all_reduce);
    const Held map(device(), Lane::compute,
                   alloc(Lane::compute, Band::workspace, Dim(std::int64_t(states_.size()), 0), Dtype::fp32));
    fabric().all_reduce(Lane::compute, mesh().world, *map, Payload::control);
    tell({"backward is over", "all_reduce of the map of used parameters", map->bytes(), Lane::compute, "", ""});
  }
  for (const Bucket& bucket : buckets_) {
    label(Verb::backward);
    after(bucket.reduced, Lane::compute, Edge::reduction_before_update);
    if (bucket_view_) continue;
    for (const int p : bucket.parameters) device().launch(Lane::compute, Copy{view(p), states_[p].grad});
  }
  tell({"backward is over", "compute waits for all buckets", 0, Lane::compute, "all reductions", ""});
}

HookedScheme::AdamTensors PytorchDdp::adam_tensors(int p, Tensor grad) const {
  const State& s = states_[p];
  const Dim count = parameters()[p].count();
  const bool has_master = knobs().precision.has_master();
  const Dim moments = has_master ? count : none;
  return {p,
          grad,
          has_master ? s.opt.slice(none, count) : s.param,
          s.opt.slice(moments, count),
          s.opt.slice(moments + count, count),
          s.param};
}

void PytorchDdp::update() {
  std::vector<Tensor> gradients;
  for (const State& s : states_) gradients.push_back(s.grad);
  const Tensor factor = update_factor(gradients);
  std::vector<AdamTensors> list;
  for (int p = 0; p < int(states_.size()); ++p)
    if (updates(p)) list.push_back(adam_tensors(p, states_[p].grad));
  launch_adam(list, factor);
  zero_grad();
  if (factor) device().free(Lane::compute, factor);
}

void PytorchDdp::zero_grad() {
  for (State& s : states_) {
    if (!bucket_view_) device().free(Lane::compute, s.grad);  // set_to_none=True
    s.grad = {};
  }
}

void PytorchDdp::append_theta(std::vector<ThetaPiece>& pieces) {
  pieces.resize(states_.size());
  for (int p = 0; p < int(states_.size()); ++p) {
    const Dim count = parameters()[p].count();
    pieces[p] = {p, none, count, {}};
    const bool has_master = knobs().precision.has_master();
    device().download(Lane::compute, has_master ? states_[p].opt.slice(none, count) : states_[p].param, pieces[p].values);
  }
}

}  // namespace shardsim
