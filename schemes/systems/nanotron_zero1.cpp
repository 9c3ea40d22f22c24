// nanotron_zero1: slices, the fp32 sums, and the step.
#include "systems/nanotron_zero1.h"

#include <algorithm>

namespace shardsim {

std::vector<Option> NanotronZero1::options() {
  using Kind = Option::Kind;
  return {
      {.name = "zero_stage",
       .kind = Kind::integer,
       .standard = "1",
       .about = "1, or 0: DDP, and Adam on everything",
       .low = 0,
       .high = 1},
      {.name = "ddp_bucket_cap_mb", .kind = Kind::number, .standard = "25", .about = "MiB of a bucket, without ZeRO-1", .low = 0},
      {.name = "commit",
       .standard = "before-7bc9923",
       .about = "of nanotron: since 7bc9923 ZeRO-1 with fp32 accumulation raises NotImplementedError on more than one rank",
       .words = {"before-7bc9923", "newest"}}};
}

NanotronZero1::NanotronZero1(const Options& options)
    : is_sharded_(options.integer("zero_stage") == 1),
      is_newest_(options.text("commit") == "newest"),
      bucket_bytes_(options.number("ddp_bucket_cap_mb") * (1 << 20)) {}

void NanotronZero1::check_options() const {
  const Precision& precision = knobs().precision;
  if (is_newest_ && is_sharded_ && rank().world > 1)
    refuse(
        "commit: newest wraps the model into DDP on more than one rank, whose hook for fp32 accumulation raises "
        "NotImplementedError "
        "with ZeRO-1; use commit: before-7bc9923, or zero_stage: 0");
  if (precision.param == Dtype::fp16) refuse("nanotron scales no loss, which fp16 needs; use bf16");
  if (precision.grad != precision.param)
    refuse("precision.grad: backward makes gradients of the parameters' type, and sums are fp32; leave it out");
  if (!precision.master) refuse("fp32 accumulation keeps fp32 masters; use precision.master: fp32");
}

/// As even as whole elements allow, the longer ones first.
Dim NanotronZero1::border(int p, int of_rank) const {
  const Dim count = parameters()[std::size_t(p)].count();
  const std::int64_t n = slices_, longest = (count.charged() - 1) / n + 1, shorter = longest * n - count.charged();
  return count.part(longest * of_rank - std::max<std::int64_t>(0, of_rank - (n - shorter)));
}

void NanotronZero1::make_bands() {
  check_options();
  if (is_sharded_) slices_ = rank().world, slice_ = mesh().world.me;
  const int n = slices_, me = slice_, count_of_all = int(parameters().size());
  Dim all, mine;
  std::vector<Dim> lengths(std::size_t(n), none);  // of the ranks' slices
  for (int p = 0; p < count_of_all; ++p) {
    all = all + parameters()[std::size_t(p)].count();
    for (int r = 0; r < n; ++r) lengths[std::size_t(r)] = lengths[std::size_t(r)] + border(p, r + 1) - border(p, r);
  }
  std::vector<Dim> borders{none};
  for (const Dim length : lengths)
    borders.push_back(borders.back() + length + Dim(lengths.front().charged() - length.charged(), 0));
  borders_ = std::make_shared<const std::vector<Dim>>(std::move(borders));

  label(Verb::bind);
  sums_ = zeros(Band::grad, all, Dtype::fp32);
  masters_ = alloc(Lane::compute, Band::opt, lengths[std::size_t(me)], Dtype::fp32);
  states_.resize(parameters().size());
  all = none;
  for (int p = 0; p < count_of_all; ++p) {
    State& s = states_[std::size_t(p)];
    const Dim count = parameters()[std::size_t(p)].count();
    label(Verb::bind, p);
    s.param = alloc(Lane::compute, Band::param, count, knobs().precision.param);
    upload_theta0(s.param, p, none, count);
    s.sum = sums_.slice(all, count);
    all = all + count;
    Own own{p, border(p, me), border(p, me + 1) - border(p, me), {}, {}, {}};
    if (own.count.charged() == 0) continue;
    own.master = masters_.slice(mine, own.count);
    upload_theta0(own.master, p, own.begin, own.count);
    own.m = zeros(Band::opt, own.count, Dtype::fp32);
    own.v = zeros(Band::opt, own.count, Dtype::fp32);
    mine = mine + own.count;
    own_.push_back(own);
  }
  if (!is_sharded_ && rank().world > 1) make_buckets();
}

/// A bucket is closed when it reaches the limit, in the parameters' type.
void NanotronZero1::make_buckets() {
  double bytes = bucket_bytes_;
  for (int p = int(states_.size()) - 1; p >= 0; --p) {
    State& s = states_[std::size_t(p)];
    if (bytes >= bucket_bytes_) buckets_.emplace_back(), bytes = 0;
    buckets_.back().parameters.push_back(p);
    bytes += double(s.param.bytes());
    s.bucket = int(buckets_.size()) - 1;
  }
  for (const Bucket& bucket : buckets_) {
    Dim size, at;
    for (const int p : bucket.parameters) size = size + states_[std::size_t(p)].sum.count();
    label(Verb::bind, states_[std::size_t(bucket.parameters.front())].bucket);
    const Tensor flat = alloc(Lane::compute, Band::bucket, size, knobs().precision.grad);
    for (const int p : bucket.parameters) {
      State& s = states_[std::size_t(p)];
      s.in_bucket = flat.slice(at, s.sum.count());
      at = at + s.sum.count();
    }
  }
}

Tensor NanotronZero1::parameter(int p) {
  const Parameter& parameter = parameters()[std::size_t(p)];
  return states_[std::size_t(p)].param.matrix(none, parameter.rows, parameter.cols);
}

void NanotronZero1::begin_micro_batch() {
  next_ = 0;
  for (Bucket& bucket : buckets_) bucket.pending = int(bucket.parameters.size());
}

void NanotronZero1::gradient_ready(int p) {
  State& s = states_[std::size_t(p)];
  s.grad = take_gradient(p);
  if (!micro_batch().last || buckets_.empty()) return;
  label(Verb::backward, p);
  device().launch(Lane::compute, Copy{s.grad, s.in_bucket});
  --buckets_[std::size_t(s.bucket)].pending;
  for (; next_ < buckets_.size() && buckets_[next_].pending == 0; ++next_) {  // strictly in order
    reduce(buckets_[next_]);
    buckets_[next_].reduced = device().record(lane(Lane::reduce));
  }
  label(Verb::backward);
}

/// The hook of a full bucket: what travels are the fp32 sums, not the bucket.
void NanotronZero1::reduce(const Bucket& bucket) const {
  const Lane reduce = lane(Lane::reduce);
  std::int64_t bytes = 0;
  for (const int p : bucket.parameters) {
    const State& s = states_[std::size_t(p)];
    device().launch(Lane::compute, Add{s.in_bucket, s.sum});
    bytes += s.sum.bytes();
  }
  label(Verb::all_reduce, int(next_));
  order(Lane::compute, reduce, Edge::gradient_before_reduction);
  for (const int p : bucket.parameters) fabric().all_reduce(reduce, mesh().world, states_[std::size_t(p)].sum);
  tell({"bucket " + std::to_string(next_) + " is full", "all_reduces of its fp32 sums, tensor by tensor", bytes, reduce,
        "compute, up to the last gradient", ""});
}

void NanotronZero1::end_backward() {
  if (micro_batch().last && !buckets_.empty()) {
    for (const Bucket& bucket : buckets_) after(bucket.reduced, Lane::compute, Edge::reduction_before_update);
    for (State& s : states_) {
      device().launch(Lane::compute, Copy{s.in_bucket, s.grad});  // DDP's last act
      device().free(Lane::compute, s.grad);
    }
    return tell({"backward is over", "compute waits for all buckets", 0, Lane::compute, "all reductions", "all gradients"});
  }
  accumulate();
  if (!micro_batch().last || rank().world == 1) return;
  label(Verb::all_reduce);
  fabric().all_reduce(Lane::compute, mesh().world, sums_);
  tell({"the last backward is over", "all_reduce of the whole fp32 gradient", sums_.bytes(), Lane::compute, "all gradients", ""});
}

/// When all of a backward is over, so that for a moment all gradients exist in both types.
void NanotronZero1::accumulate() {
  for (int p = 0; p < int(states_.size()); ++p) {
    State& s = states_[std::size_t(p)];
    label(Verb::backward, p);
    device().launch(Lane::compute, Add{s.grad, s.sum});
    device().free(Lane::compute, s.grad);
  }
}

void NanotronZero1::update() {
  std::vector<Tensor> gradients;  // complete on every rank
  for (const State& s : states_) gradients.push_back(s.sum);
  const Tensor factor = update_factor(gradients);
  std::vector<AdamTensors> list;
  for (const Own& own : own_) {
    const Tensor grad = states_[std::size_t(own.parameter)].sum.slice(own.begin, own.count);
    list.push_back({own.parameter, grad, own.master, own.m, own.v, own.master});
  }
  launch_adam(list, factor);
  if (factor) device().free(Lane::compute, factor);
  for (const Own& own : own_) {
    label(Verb::adam, own.parameter);
    device().launch(Lane::compute, Copy{own.master, states_[std::size_t(own.parameter)].param.slice(own.begin, own.count)});
  }
  if (slices_ > 1) gather_parameters();
  label(Verb::release);
  device().launch(Lane::compute, Fill{sums_, 0.f});
}

/// all_gather_coalesced: this rank's slices are flattened, everyone's come into a copy of the model, and from there into it.
void NanotronZero1::gather_parameters() {
  const Lane lane = Lane::compute;
  const int n = slices_, me = slice_;
  label(Verb::all_gather);
  const Dtype type = knobs().precision.param;
  const Held mine(device(), lane,
                  alloc(lane, Band::gathered, (*borders_)[std::size_t(me) + 1] - (*borders_)[std::size_t(me)], type));
  Dim at;
  for (const Own& own : own_) {
    const Tensor slice = states_[std::size_t(own.parameter)].param.slice(own.begin, own.count);
    device().launch(lane, Copy{slice, mine->slice(at, own.count), at.charged() > 0});  // torch.cat is one kernel
    at = at + own.count;
  }
  const Held everyones(device(), lane, alloc(lane, Band::gathered, borders_->back(), type));
  fabric().all_gather(lane, mesh().world, *mine, *everyones, Payload::data, borders_);
  for (int r = 0; r < n; ++r) {
    Dim from = (*borders_)[std::size_t(r)];
    for (int p = 0; p < int(states_.size()); ++p) {
      const Dim begin = border(p, r), count = border(p, r + 1) - begin;
      if (count.charged() == 0) continue;
      device().launch(lane, Copy{everyones->slice(from, count), states_[std::size_t(p)].param.slice(begin, count)});
      from = from + count;
    }
  }
  tell({"Adam is over", "all_gather of all slices, into a copy of the model", everyones->bytes(), lane, "Adam, and the copy-in",
        "both copies, after the copy-out"});
}

void NanotronZero1::append_theta(std::vector<ThetaPiece>& pieces) {
  pieces.resize(own_.size());
  for (std::size_t i = 0; i < own_.size(); ++i) {
    pieces[i] = {own_[i].parameter, own_[i].begin, own_[i].count, {}};
    device().download(Lane::compute, own_[i].master, pieces[i].values);
  }
}

}  // namespace shardsim
