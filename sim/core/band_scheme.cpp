// BandScheme: what the verbs do, in stream operations; and what they refuse.
#include "core/band_scheme.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace shardsim {
namespace {

Tensor whole(const Tensor& tensor) { return tensor.slice(none, tensor.count()); }

}  // namespace

void BandScheme::illegal(Verb verb, int unit, const std::string& why) const {
  std::string where = unit < 0 ? "" : "unit " + std::to_string(unit) + " of " + std::to_string(cuts_.size());
  throw IllegalStep(std::string(name_of(verb)) + "(" + where + "): " + why);
}

BandScheme::State& BandScheme::state(Verb verb, int unit) {
  if (unit < 0 || unit >= int(states_.size()))
    illegal(verb, unit, "there is no such unit; iterate forward_order() or backward_order()");
  return states_[unit];
}

/// "units 0, 2 are", of those that hold this tensor.
std::string BandScheme::units_with(Tensor State::*held) const {
  std::string list;
  int count = 0;
  for (int u = 0; u < int(states_.size()); ++u)
    if (states_[u].*held) list += (count++ ? ", " : "") + std::to_string(u);
  return (count == 1 ? "unit " : "units ") + list + (count == 1 ? " is" : " are");
}

void BandScheme::after(Event event, Lane lane, Edge edge) {
  if (rank_->knobs.omitted != edge) rank_->device.wait(lane, event);
}

// ---- the bands

BandScheme::Slice BandScheme::slice(int unit, int member) const {
  const Dim part = cuts_[unit].padded.over(mesh_.shards.size);
  return {member * part, part};
}

BandScheme::Slice BandScheme::owned(int unit) const {
  return shard().has(Band::opt) ? slice(unit, mesh_.shards.me) : Slice{none, cuts_[unit].padded};
}

Tensor BandScheme::own_grad(int unit) const {
  const auto [begin, count] = owned(unit);
  return states_[unit].grad.slice(shard().has(Band::grad) ? none : begin, count);
}

Tensor BandScheme::own_param(int unit) const {
  const auto [begin, count] = owned(unit);
  return states_[unit].param.slice(shard().has(Band::param) ? none : begin, count);
}

void BandScheme::bind(Rank& rank) {
  rank_ = &rank;
  mesh_ = Mesh::of(rank.index, rank.world, shard().empty() ? 1 : sharers(rank.knobs, rank.world));
  const Precision& precision = rank.knobs.precision;
  cuts_ = cut(rank.model, rank.knobs.units, rank.world, bytes_of(precision.grad));
  states_.resize(cuts_.size());
  Device& device = rank.device;
  for (int u = 0; u < int(cuts_.size()); ++u) {
    label(Verb::bind, u);
    State& s = states_[u];
    auto piece = [&](Band band) { return shard().has(band) ? slice(u, mesh_.shards.me) : Slice{none, cuts_[u].padded}; };
    auto theta0 = [&](Slice part) { return HostView{&rank.theta0, cuts_[u].begin + part.begin, cuts_[u].count - part.begin}; };
    s.param = device.alloc(Lane::compute, Band::param, one, piece(Band::param).count, precision.param);
    device.upload(Lane::compute, s.param, theta0(piece(Band::param)));
    if (rank.knobs.grads_resident) s.grad = device.alloc(Lane::compute, Band::grad, one, piece(Band::grad).count, precision.grad);
    s.opt = device.alloc(Lane::compute, Band::opt, one, precision.opt_vectors() * owned(u).count, Dtype::fp32);
    device.upload(Lane::compute, s.opt, HostView{&rank.theta0, none, none});
    if (precision.has_master()) device.upload(Lane::compute, s.opt.slice(none, owned(u).count), theta0(owned(u)));
    s.param_ready = device.record(Lane::compute);
    Dim at;
    for (int m = cuts_[u].first; m < cuts_[u].last; ++m) {
      module_begin_.push_back(at);
      at = at + count_of(rank.model.layout(m));
    }
  }
  turns_ = turns(rank.model, cuts_);
  for (const Turn& turn : turns_) {
    forward_.push_back(turn.unit);
    ++states_[turn.unit].turns;
  }
  backward_.assign(forward_.rbegin(), forward_.rend());
  if (!rank.knobs.loss_scale.on) return;
  label(Verb::bind, -1);
  scaler_ = device.alloc(Lane::compute, Band::workspace, one, Dim(3, 3), Dtype::fp32);
  const std::vector<float> first{rank.knobs.loss_scale.initial, 0.f, 0.f};
  device.upload(Lane::compute, scaler_, HostView{&first, none, Dim(3, 3)});
}

std::vector<ThetaPiece> BandScheme::theta() {
  std::vector<ThetaPiece> pieces(cuts_.size());
  for (int u = 0; u < int(cuts_.size()); ++u) {
    label(Verb::fetch, u);
    const auto [begin, count] = owned(u);
    pieces[u] = {u, begin, count, {}};
    const bool has_master = rank_->knobs.precision.has_master();
    rank_->device.wait(Lane::compute, states_[u].param_ready);
    rank_->device.download(Lane::compute, has_master ? states_[u].opt.slice(none, count) : own_param(u), pieces[u].values);
  }
  rank_->device.synchronize();
  return pieces;
}

// ---- a step and its passes

void BandScheme::run_step(int step, StepReport& report) {
  step_ = step, micro_batch_ = -1, gathers_ = full_gradients_ = incomplete_ = 0, updated_ = false;
  releases_.clear(), reductions_.clear();
  label(Verb::load, -1);
  rank_->device.begin_step(step);
  rank_->model.begin_step(step, scaler_);
  order_ = nullptr;
  this->step();
  check_end_of_step();
  label(Verb::fetch, -1);
  rank_->model.end_step(report.loss);
  if (scaler_) rank_->device.download(Lane::compute, scaler_, report.scaler);
  if (rank_->knobs.step_barrier) rank_->device.synchronize();
}

void BandScheme::check_end_of_step() const {
  for (int u = 0; u < int(states_.size()); ++u) {
    if (states_[u].gathered) illegal(Verb::all_gather, u, "still gathered at the end of step(); release(u) after its last use");
    if (states_[u].full) illegal(Verb::backward, u, "its full gradient was never reduced; call reduce_scatter(u)");
    if (updated_ && !states_[u].published)
      illegal(Verb::adam, u, "only this rank's slice of the parameters was updated; call all_gather(u) to publish it");
  }
  if (!updated_) illegal(Verb::adam, -1, "step() ended without an update; call adam() after the reductions");
}

BandScheme::MicroBatches BandScheme::micro_batches() { return MicroBatches(this); }

void BandScheme::start_micro_batch(int index) {
  micro_batch_ = index;
  forwards_ = backwards_ = 0;
  for (State& s : states_) s.turns_left = s.turns;
  label(Verb::load, -1);
  rank_->model.load(step_, index);
}

const std::vector<int>& BandScheme::forward_order() {
  ++pass_;
  return *(order_ = &forward_);
}

const std::vector<int>& BandScheme::backward_order() {
  ++pass_;
  return *(order_ = &backward_);
}

/// Where the current pass has got to.
std::vector<int>::const_iterator BandScheme::next_turn() const {
  return order_->begin() + std::ptrdiff_t(order_ == &forward_ ? forwards_ : backwards_);
}

// ---- compute

Tensor BandScheme::readable(int unit, Verb verb) {
  State& s = states_[unit];
  if (!shard().has(Band::param)) {
    if (!s.published)
      illegal(verb, unit, "only this rank's slice of the parameters is up to date; call all_gather(u) after adam()");
    after(s.param_ready, Lane::compute, Edge::parameters_before_use);
    return whole(s.param);
  }
  if (!s.gathered) illegal(verb, unit, "this rank holds only its slice of the parameters; call all_gather(u) first");
  if (s.gathered_in != pass_ && !keeps_gathered())
    illegal(verb, unit,
            "the gather of an earlier pass still serves this one: that saves traffic and hides what the gathered copy costs; "
            "release(u) after forward(u) and call all_gather(u) again, or override keeps_gathered() if that is meant");
  after(s.gather_ready, Lane::compute, Edge::gather_before_use);
  return whole(s.gathered);
}

void BandScheme::forward(int unit) {
  state(Verb::forward, unit);
  if (micro_batch_ < 0) illegal(Verb::forward, unit, "no data is loaded; iterate micro_batches() around the passes");
  if (forwards_ == forward_.size() || forward_[forwards_] != unit)
    illegal(Verb::forward, unit, "units run in model order, once per micro-batch; iterate forward_order() inside micro_batches()");
  label(Verb::forward, unit);
  const Tensor params = readable(unit, Verb::forward);
  const Turn& turn = turns_[forwards_++];
  for (int visit = turn.first; visit < turn.last; ++visit) {
    const int module = rank_->model.visits()[visit];
    rank_->model.forward(visit, params.slice(module_begin_[module], count_of(rank_->model.layout(module))));
  }
  if (keeps_gathered()) make_room(states_[unit], rank_->device.record(Lane::compute));
}

/// Where the gradient goes: the resident one, or a full one on loan where only the slice is kept.
void BandScheme::prepare_gradient(int unit) {
  State& s = states_[unit];
  Device& device = rank_->device;
  const Dtype type = rank_->knobs.precision.grad;
  if (s.turns_left < s.turns) return;  // a later turn adds to what the first has made
  if (s.full)
    illegal(Verb::backward, unit, "its gradient of an earlier micro-batch was never reduced; call reduce_scatter(u) first");
  if (!shard().has(Band::grad)) {
    if (s.scattered || s.reduced)
      illegal(Verb::backward, unit,
              "its gradient is summed over the ranks already and cannot take in another micro-batch; reduce where micro.reduces is "
              "true");
    if (!s.grad) s.grad = device.alloc(Lane::compute, Band::grad, one, cuts_[unit].padded, type);
    return;
  }
  const int budget = rank_->knobs.unreduced;
  const int made = full_gradients_ - incomplete_;
  const int alive = made - int(reductions_.size());  // in program order; the stream may still hold more
  if (alive > budget)
    illegal(
        Verb::backward, unit,
        units_with(&State::full) + " still holding a full gradient, more than `unreduced` allows; call reduce_scatter(u) first");
  if (budget != unlimited && made > budget) after(reductions_[made - 1 - budget], Lane::compute, Edge::reduction_before_backward);
  s.full = device.alloc(Lane::compute, Band::grad, one, cuts_[unit].padded, type);
  ++full_gradients_;
}

void BandScheme::backward(int unit) {
  State& s = state(Verb::backward, unit);
  if (forwards_ != forward_.size() || backwards_ == backward_.size() || backward_[backwards_] != unit)
    illegal(Verb::backward, unit, "units run in reverse model order after all forwards; iterate backward_order()");
  label(Verb::backward, unit);
  const Tensor params = readable(unit, Verb::backward);
  prepare_gradient(unit);
  const Tensor grads = whole(s.full ? s.full : s.grad);
  const bool accumulate = micro_batch_ > 0 && !s.full;
  if (!accumulate && s.turns_left == s.turns)
    rank_->device.launch(Lane::compute, Fill{grads.slice(cuts_[unit].count, cuts_[unit].padded - cuts_[unit].count), 0.f});
  const Turn& turn = turns_[turns_.size() - 1 - backwards_++];
  for (int visit = turn.last - 1; visit >= turn.first; --visit) {
    const int module = rank_->model.visits()[visit];
    const Dim begin = module_begin_[module], count = count_of(rank_->model.layout(module));
    rank_->model.backward(visit, params.slice(begin, count), grads.slice(begin, count), accumulate);
  }
  if (s.full) incomplete_ += int(s.turns_left == s.turns) - int(s.turns_left == 1);
  --s.turns_left;
  s.grad_ready = rank_->device.record(Lane::compute);
  if (keeps_gathered()) make_room(s, s.grad_ready);
  s.scattered = s.reduced = false;
}

// ---- collectives

void BandScheme::check_can_reduce(Verb verb, int unit) const {
  const State& s = states_[unit];
  if (verb == Verb::all_reduce && !shard().empty() && !replicates())
    illegal(verb, unit, "this scheme's ranks are shards, not replicas; call reduce_scatter(u)");
  if (verb == Verb::reduce_scatter && shard().empty())
    illegal(verb, unit, "nothing is sharded, every rank updates all parameters; call all_reduce(u)");
  if (verb == Verb::all_reduce && !shard().empty() && !s.scattered)
    illegal(verb, unit,
            "the replicas sum their slices, and this one is not summed over its shards yet; call reduce_scatter(u) first");
  const bool once_more = verb == Verb::all_reduce ? s.reduced : s.scattered;
  const bool from_full = verb == Verb::reduce_scatter && shard().has(Band::grad);
  if (s.grad_ready.at == 0 || once_more || (from_full && !s.full))
    illegal(verb, unit, "there is no unreduced gradient; call backward(u) first, and reduce once");
}

void BandScheme::all_reduce(int unit) {
  State& s = state(Verb::all_reduce, unit);
  if (s.turns_left > 0 && s.turns_left < s.turns) return;  // due when its gradient is complete
  check_can_reduce(Verb::all_reduce, unit);
  label(Verb::all_reduce, unit);
  Device& device = rank_->device;
  const Lane lane = rank_->lane(Lane::reduce);
  const Dtype type = rank_->knobs.precision.reduce;
  const Tensor held = own_grad(unit);  // all of it where nothing is sharded
  after(s.grad_ready, lane, Edge::gradient_before_reduction);
  if (type == s.grad.dtype()) {
    rank_->fabric.all_reduce(lane, mesh_.replicas, held);
  } else {
    const Held bucket(device, lane, device.alloc(lane, Band::bucket, one, held.count(), type));
    device.launch(lane, Copy{held, *bucket});
    rank_->fabric.all_reduce(lane, mesh_.replicas, *bucket);
    device.launch(lane, Copy{*bucket, held});
  }
  s.grad_ready = device.record(lane);
  s.reduced = true;
}

void BandScheme::reduce_scatter(int unit) {
  State& s = state(Verb::reduce_scatter, unit);
  if (s.turns_left > 0 && s.turns_left < s.turns) return;  // due when its gradient is complete
  check_can_reduce(Verb::reduce_scatter, unit);
  label(Verb::reduce_scatter, unit);
  Device& device = rank_->device;
  const Lane lane = rank_->lane(Lane::reduce);
  const Precision& precision = rank_->knobs.precision;
  const auto [begin, count] = slice(unit, mesh_.shards.me);
  after(s.grad_ready, lane, Edge::gradient_before_reduction);

  Tensor buffer = whole(s.full ? s.full : s.grad);
  Held bucket;
  if (precision.reduce != precision.grad) {
    bucket = Held(device, lane, device.alloc(lane, Band::bucket, one, cuts_[unit].padded, precision.reduce));
    device.launch(lane, Copy{buffer, *bucket});
    buffer = *bucket;
  }
  if (s.full && !s.grad) s.grad = device.alloc(lane, Band::grad, one, count, precision.grad);
  const bool first = micro_batch_ == 0;
  const Tensor kept = own_grad(unit);
  const Tensor sum = s.full && first && !bucket ? kept : buffer.slice(begin, count);  // straight to where it is kept, or in place
  rank_->fabric.reduce_scatter(lane, mesh_.shards, buffer, sum);
  if (s.full && !first) device.launch(lane, Add{sum, kept});
  else if (bucket) device.launch(lane, Copy{sum, kept});
  bucket.reset();
  if (s.full) {  // decline to keep what this rank does not own
    device.free(lane, s.full);
    s.full = {};
  }
  s.grad_ready = device.record(lane);
  reductions_.push_back(s.grad_ready);
  s.scattered = true;
  s.reduced = !replicates();
}

void BandScheme::all_gather(int unit) {
  State& s = state(Verb::all_gather, unit);
  if (shard().empty()) illegal(Verb::all_gather, unit, "nothing is sharded, there is nothing to gather; drop the call");
  if (!shard().has(Band::param)) {           // publish: the result stays
    if (s.published && s.turns > 1) return;  // its next turn: published already
    label(Verb::all_gather, unit);
    const Lane lane = rank_->lane(Lane::gather);
    after(s.param_ready, lane, Edge::update_before_gather);
    rank_->fabric.all_gather(lane, mesh_.shards, own_param(unit), whole(s.param));
    s.param_ready = rank_->device.record(lane);
    s.published = true;
    return;
  }
  if (!order_) illegal(Verb::all_gather, unit, "no pass has begun; iterate forward_order() or backward_order()");
  // Borrow, and look ahead in pass order as far as the memory budget allows.
  auto here = std::find(next_turn(), order_->end(), unit);
  if (here == order_->end()) here = std::find(order_->begin(), order_->end(), unit);
  for (auto next = here; next != order_->end() && next - here <= rank_->knobs.prefetch; ++next) gather(*next);
}

void BandScheme::gather(int unit) {
  State& s = states_[unit];
  if (s.gathered) return;
  label(Verb::all_gather, unit);
  Device& device = rank_->device;
  const Lane lane = rank_->lane(Lane::gather);
  if (rank_->knobs.prefetch != unlimited) {
    const int budget = rank_->knobs.prefetch + 1;
    const bool has_room = gathers_ - int(releases_.size()) < budget;
    if (!has_room && !keeps_gathered())
      illegal(Verb::all_gather, unit,
              units_with(&State::gathered) +
                  " gathered already, all that `prefetch` allows; release(u) one first, or override "
                  "keeps_gathered() if they are meant to stay");
    if (has_room && gathers_ >= budget) after(releases_[gathers_ - budget], lane, Edge::release_before_gather);
  }
  after(s.released, lane, Edge::release_before_gather);  // the budget is one of units: none is gathered twice at once
  after(s.param_ready, lane, Edge::update_before_gather);
  s.gathered = device.alloc(lane, Band::gathered, one, cuts_[unit].padded, rank_->knobs.precision.param);
  rank_->fabric.all_gather(lane, mesh_.shards, whole(s.param), whole(s.gathered));
  s.gather_ready = device.record(lane);
  s.gathered_in = pass_;
  s.is_ahead = true;
  ++gathers_;
}

/// From the event on, the unit is no longer one of those that `prefetch` counts.
void BandScheme::make_room(State& s, Event event) {
  if (std::exchange(s.is_ahead, false)) releases_.push_back(event);
}

void BandScheme::release(int unit) {
  State& s = state(Verb::release, unit);
  if (!s.gathered) illegal(Verb::release, unit, "nothing is gathered; release(u) once for every all_gather(u)");
  if (keeps_gathered() && std::find(next_turn(), order_->end(), unit) != order_->end()) return;  // kept for its next turn
  label(Verb::release, unit);
  rank_->device.free(Lane::compute, s.gathered);  // behind the last kernel that used it
  s.gathered = {};
  s.released = rank_->device.record(Lane::compute);
  make_room(s, s.released);
}

}  // namespace shardsim
