// deepspeed stage 3: how gradients are reduced, and the optimizer's step.
#include <algorithm>

#include "systems/deepspeed_stage3.h"

namespace shardsim {

/// Into the bucket, which is a copy on the stream of reductions; or it stays where it is, if the bucket is too small.
void DeepSpeedStage3::gradient_ready(int p) {
  State& s = states_[p];
  const Dim count = parameters()[p].count();
  if (elements_ + count.charged() > bucket_size_ && !reducing_.empty()) flush("the gradient of " + parameters()[p].name + " comes");
  const Lane lane = reduce_lane();
  label(Verb::backward, p);
  s.grad = take_gradient(p);
  order(Lane::compute, lane, Edge::gradient_before_reduction);
  s.bucketed = contiguous_ && elements_ + count.charged() <= bucket_size_;
  if (s.bucketed) {
    const Tensor view = bucket_.slice(filled_, count);
    device().launch(lane, Copy{s.grad.slice(none, count), view});
    device().free(lane, s.grad);
    s.grad = view;
    s.in_bucket = filled_;
    filled_ = filled_ + count;
  }
  reducing_.push_back(p);
  elements_ += count.charged();
}

void DeepSpeedStage3::flush(const std::string& trigger) {
  if (reducing_.empty()) return;
  limit(ongoing_reductions_);
  const bool in_bucket = states_[reducing_.front()].bucketed, all_reduces = !scatters_ && in_bucket;
  const bool one_by_one = bool(quantized_gradients_);
  label(all_reduces ? Verb::all_reduce : Verb::reduce_scatter, reducing_.front());
  tell({trigger,
        (all_reduces  ? "all_reduce"
         : one_by_one ? "all_to_all within a node and across nodes, in 4 bits, or else reduce_scatter: one by one,"
                      : "reduce_scatter") +
            (" of " + std::to_string(reducing_.size())) + " gradients, " + std::to_string(elements_) + " elements",
        one_by_one ? elements_ / 2 : elements_ * bytes_of(knobs().precision.reduce), reduce_lane(), "the gradients",
        !in_bucket                  ? "their own storage"
        : all_reduces || one_by_one ? ""
        : reducing_.size() > 1      ? "the interleaved copy of the bucket"
                                    : ""});
  pieces_.sort(reducing_);
  if (all_reduces) reduce_bucket();
  else if (one_by_one) average_one_by_one();
  else scatter_gradients(reducing_);
  if (mesh_.replicas.size > 1 && micro_batch().last) sum_over_replicas();
  ongoing_reductions_.push_back(device().record(reduce_lane()));
  reducing_.clear();
  elements_ = 0;
  filled_ = none;
}

/// reduce_scatter: false. In place, and everyone takes its own out of the sum.
void DeepSpeedStage3::reduce_bucket() {
  const Lane lane = reduce_lane();
  const Tensor sum = bucket_.slice(none, filled_);
  scale(lane, sum, 1.0 / shards().size);
  fabric().all_reduce(lane, shards(), sum);
  for (const int p : reducing_) keep(p, bucket_.slice(states_[p].in_bucket + pieces_.own_cut(p), pieces_.own_piece(p)));
}

/// Rank by rank and parameter by parameter within a rank: a copy, but for a single parameter that N divides.
void DeepSpeedStage3::scatter_gradients(const std::vector<int>& together) {
  const Lane lane = reduce_lane();
  const Dtype type = knobs().precision.reduce;
  const Borders borders = pieces_.borders_of(together, shards());
  const std::vector<Dim>& at = *borders;
  const int first = together.front();
  const bool copies = together.size() > 1 || at.back() != parameters()[first].count() || states_[first].grad.dtype() != type;
  Tensor flat = states_[first].grad.slice(none, parameters()[first].count());
  if (copies) {
    flat = alloc(lane, Band::bucket, at.back(), type);
    std::vector<Chunk> of_bucket;
    std::vector<Dim> next(at.begin(), at.end() - 1);
    bool joins = false;
    for (const int p : together) {
      const State& s = states_[p];
      const bool alone = !s.bucketed || together.size() == 1;
      std::vector<Chunk> own, &chunks = alone ? own : of_bucket;
      for (int r = 0; r < shards().size; ++r) {
        chunks.push_back(
            {(alone ? none : s.in_bucket) + pieces_.cut(p, shards(), r), next[std::size_t(r)], pieces_.piece(p, shards(), r)});
        next[std::size_t(r)] = next[std::size_t(r)] + pieces_.padded(p, shards(), r);
      }
      if (!alone) continue;
      device().launch(lane, ChunkCopy{flat, s.grad.slice(none, parameters()[p].count()), shared(own), true, 1, joins});
      joins = true;
    }
    if (!of_bucket.empty()) device().launch(lane, ChunkCopy{flat, bucket_.slice(none, filled_), shared(of_bucket), true, 1, joins});
  }
  scale(lane, flat, 1.0 / shards().size);
  const auto me = std::size_t(shards().me);
  Dim mine = at[me];
  fabric().reduce_scatter(lane, shards(), flat, flat.slice(mine, at[me + 1] - mine), Payload::data, borders);
  for (const int p : together) {
    keep(p, flat.slice(mine, pieces_.own_piece(p)));
    mine = mine + pieces_.own_padded(p);
  }
  if (copies) device().free(lane, flat);
  for (const int p : together)
    if (!states_[p].bucketed) device().free(lane, states_[p].grad);
}

/// zero_quantized_gradients.
void DeepSpeedStage3::average_one_by_one() {
  const Lane lane = reduce_lane();
  for (const int p : reducing_) {
    const Parameter& parameter = parameters()[p];
    if (!quantized_gradients_->takes(parameter.rows, parameter.cols)) {
      label(Verb::reduce_scatter, p);
      scatter_gradients({p});
      continue;
    }
    label(Verb::all_to_all, p);
    std::vector<Dim> cuts;
    for (int r = 0; r <= shards().size; ++r) cuts.push_back(pieces_.cut(p, shards(), r));
    const State& s = states_[p];
    const Tensor gradient = s.grad.matrix(none, parameter.rows, parameter.cols);
    const Held mean(device(), lane, quantized_gradients_->mean(lane, parameter.name, gradient, cuts));
    keep(p, *mean);
    if (!s.bucketed) device().free(lane, s.grad);
  }
}

void DeepSpeedStage3::keep(int p, Tensor piece) {
  if (piece.count().charged() == 0) return;
  const Lane lane = reduce_lane();
  const Tensor kept = grads_.slice(pieces_.at(p), piece.count());
  if (micro_batch().first) device().launch(lane, Copy{piece, kept});
  else device().launch(lane, Add{piece, kept});
}

/// MiCS: what has just been kept. Neighbours go as one, where DeepSpeed joins all of a bucket's in one launch of NCCL.
void DeepSpeedStage3::sum_over_replicas() {
  const Lane lane = reduce_lane();
  label(Verb::all_reduce, reducing_.front());
  for (const int p : reducing_) scale(lane, own_shard(grads_, p), 1.0 / mesh_.replicas.size);
  for (std::size_t i = 0, end = 0; i < reducing_.size(); i = end) {
    Dim count;
    const auto at = [&](std::size_t j) { return pieces_.at(reducing_[j]); };
    for (end = i; end < reducing_.size() && at(end) == at(i) + count; ++end) count = count + pieces_.own_padded(reducing_[end]);
    fabric().all_reduce(lane, mesh_.replicas, grads_.slice(at(i), count));
  }
  tell({"its bucket is scattered", "all_reduce over the replicas", elements_ / shards().size * bytes_of(grads_.dtype()), lane, "",
        ""});
}

/// The host waits for the stream of reductions, which is behind the whole of backward.
void DeepSpeedStage3::end_backward() {
  flush("backward is over");
  if (knobs().omitted != Edge::reduction_before_update) device().synchronize();
  tell({"backward is over", "the host waits for the reductions", 0, reduce_lane(), "all reductions", ""});
}

/// A scan of the own gradients, and the host waits for the verdict of all.
void DeepSpeedStage3::check_overflow() {
  label(Verb::clip);
  const Held found(device(), Lane::compute, zeros(Band::workspace, one, Dtype::fp32, optimizer_place()));
  device().launch(Lane::compute, SumSquares{grads_, *found});
  const Held flag(device(), Lane::compute, alloc(Lane::compute, Band::workspace, Dim(1, 0), Dtype::uint8));
  device().launch(Lane::compute, Fill{*flag, 0});
  all_reduce_control(Lane::compute, *flag);
  device().synchronize();
  tell({"step", "all_reduce of the overflow flag", 1, Lane::compute, "the scan of the own gradients", ""});
}

/// One sum per sub-group, whether or not anything is clipped. DeepSpeed's are fp64.
Tensor DeepSpeedStage3::squares_of_gradients() {
  label(Verb::clip);
  const auto groups = std::int64_t(sub_groups_.size());
  const Tensor squares = alloc(Lane::compute, Band::workspace, Dim(groups, groups), Dtype::fp32);
  device().launch(Lane::compute, Fill{squares, 0.f});
  for (const int p : order_)
    device().launch(Lane::compute, SumSquares{own_shard(grads_, p), squares.slice(Dim(states_[p].group, states_[p].group), one)});
  for (std::int64_t group = 0; group < groups; ++group) all_reduce_control(Lane::compute, squares.slice(Dim(group, group), one));
  tell({"step", "all_reduce of the norm, one per sub-group", squares.bytes(), Lane::compute, "", ""});
  return squares;
}

void DeepSpeedStage3::update() {
  const std::vector<int> dropped = coordinator_->release_all();
  for (const int p : dropped) drop(p);
  tell({"step", "all gathered parameters are dropped", 0, Lane::compute, "", std::to_string(dropped.size()) + " parameters"});
  if (checks_overflow_ || knobs().loss_scale.on) check_overflow();
  const Tensor squares = squares_of_gradients();
  const Tensor factor = make_factor(squares);
  device().free(Lane::compute, squares);
  for (const SubGroup& group : sub_groups_) update(group, factor);
  if (factor) device().free(Lane::compute, factor);
  updated_ = device().record(Lane::compute);
  gather_persistent();
  drop_secondaries();
}

/// The gradient in fp32 and, where it was not, a flat copy of it on the way, are there for the moment only.
void DeepSpeedStage3::update(const SubGroup& group, Tensor factor) {
  label(Verb::adam, int(&group - sub_groups_.data()));
  const Lane lane = Lane::compute;
  const Held flat(device(), lane, alloc(lane, Band::grad, group.count, grads_.dtype()));
  device().launch(lane, Copy{grads_.slice(group.at, group.count), *flat});
  Held wide;
  if (grads_.dtype() != Dtype::fp32) {
    wide = Held(device(), lane, alloc(lane, Band::grad, group.count, Dtype::fp32));
    device().launch(lane, Copy{*flat, *wide});
  }
  const Tensor grad = wide ? *wide : *flat;
  scale(lane, grad, 1);  // DeepSpeed's own pass for the factor, which Adam applies here
  launch_adam({{int(&group - sub_groups_.data()), grad, group.master, group.m, group.v, group.master}}, factor);
  device().launch(lane, Copy{group.master, params_.slice(group.at, group.count)});
}

/// One gather each; the host waits for all.
void DeepSpeedStage3::gather_persistent() {
  if (persistent_.empty()) return;
  const Lane lane = this->lane(Lane::gather);
  std::int64_t bytes = 0;
  std::vector<Borders> borders;
  std::vector<Tensor> sent;
  for (const int p : persistent_) {
    State& s = states_[p];
    coordinator_->persist(p);
    label(Verb::all_gather, p);
    borders.push_back(pieces_.borders_of({p}, shards()));
    sent.push_back(shard_to_send(Lane::compute, p));
    s.full = shards().size == 1 ? sent.back() : alloc(Lane::compute, Band::gathered, borders.back()->back(), params_.dtype());
    bytes += s.full.bytes();
  }
  order(Lane::compute, lane, Edge::update_before_gather);
  if (shards().size > 1)
    for (std::size_t i = 0; i < persistent_.size(); ++i) {
      const int p = persistent_[i];
      label(Verb::all_gather, p);
      fabric().all_gather(lane, shards(), sent[i], states_[p].full, Payload::data, borders[i]);
      give_back(lane, sent[i]);
    }
  tell({"step", std::to_string(persistent_.size()) + " all_gathers, one per persistent parameter", bytes, lane, "the update", ""});
  order(lane, Lane::compute, Edge::parameters_before_use);
  if (knobs().omitted != Edge::parameters_before_use) device().synchronize();
}

void DeepSpeedStage3::append_theta(std::vector<ThetaPiece>& pieces) {
  pieces.reserve(order_.size());  // downloads write where the pieces are
  for (const int p : order_) {
    const SubGroup& group = sub_groups_[std::size_t(states_[p].group)];
    const Dim count = pieces_.own_piece(p);
    if (count.charged() == 0) continue;
    pieces.push_back({p, pieces_.own_cut(p), count, {}});
    device().download(Lane::compute, group.master.slice(pieces_.at(p) - group.at, count), pieces.back().values);
  }
}

}  // namespace shardsim
