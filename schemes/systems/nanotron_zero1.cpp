// nanotron_zero1: slices, the fp32 sums, and the step.
#include "systems/nanotron_zero1.h"

#include <algorithm>

#include "core/error.h"

namespace shardsim {

std::vector<Option> NanotronZero1::options() {
  return {{.name = "commit",
           .standard = "before-7bc9923",
           .about = "of nanotron: since 7bc9923 ZeRO-1 with fp32 accumulation raises NotImplementedError on more than one rank",
           .words = {"before-7bc9923", "newest"}}};
}

void NanotronZero1::check_options() const {
  const Precision& precision = knobs().precision;
  const auto refuse = [this](const std::string& why) { throw ScenarioError("scheme '" + rank().scheme + "': " + why); };
  if (options_.text("commit") == "newest" && rank().world > 1)
    refuse(
        "commit: newest wraps the model into DDP on more than one rank, whose hook for fp32 accumulation raises "
        "NotImplementedError "
        "with ZeRO-1; use commit: before-7bc9923");
  if (precision.param == Dtype::fp16) refuse("fp16 needs loss scaling, which is not modelled here; use bf16");
  if (precision.grad != precision.param)
    refuse("precision.grad: backward makes gradients of the parameters' type, and sums are fp32; leave it out");
  if (!precision.master) refuse("fp32 accumulation keeps fp32 masters; use precision.master: fp32");
}

/// As even as whole elements allow, the longer ones first.
Dim NanotronZero1::border(int p, int of_rank) const {
  const Dim count = parameters()[std::size_t(p)].count();
  const std::int64_t n = rank().world, longest = (count.charged() - 1) / n + 1, shorter = longest * n - count.charged();
  return count.part(longest * of_rank - std::max<std::int64_t>(0, of_rank - (n - shorter)));
}

void NanotronZero1::make_bands() {
  check_options();
  const int n = rank().world, me = mesh().world.me, count_of_all = int(parameters().size());
  const auto zeros = [this](Band band, Dim count) {
    const Tensor made = alloc(Lane::compute, band, count, Dtype::fp32);
    device().upload(Lane::compute, made, HostView{&rank().theta0, none, none});
    return made;
  };
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
  sums_ = zeros(Band::grad, all);
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
    own.m = zeros(Band::opt, own.count);
    own.v = zeros(Band::opt, own.count);
    mine = mine + own.count;
    own_.push_back(own);
  }
}

Tensor NanotronZero1::parameter(int p) {
  const Parameter& parameter = parameters()[std::size_t(p)];
  return states_[std::size_t(p)].param.matrix(none, parameter.rows, parameter.cols);
}

void NanotronZero1::gradient_ready(int p) { states_[std::size_t(p)].grad = take_gradient(p); }

/// The accumulator adds when all of a backward is over, so that for a moment all gradients exist in both types.
void NanotronZero1::end_backward() {
  for (int p = 0; p < int(states_.size()); ++p) {
    State& s = states_[std::size_t(p)];
    label(Verb::backward, p);
    device().launch(Lane::compute, Add{s.grad, s.sum});
    device().free(Lane::compute, s.grad);
    s.grad = {};
  }
  if (!micro_batch().last || rank().world == 1) return;
  label(Verb::all_reduce);
  fabric().all_reduce(Lane::compute, mesh().world, sums_);
  tell({"the last backward is over", "all_reduce of the whole fp32 gradient", sums_.bytes(), Lane::compute, "all gradients", ""});
}

/// Gradients are complete on every rank: the norm needs no collective.
Tensor NanotronZero1::clip_gradients() {
  if (knobs().clip <= 0) return {};
  label(Verb::clip);
  const Held squares(device(), Lane::compute, alloc(Lane::compute, Band::workspace, one, Dtype::fp32));
  device().launch(Lane::compute, Fill{*squares, 0.f});
  for (const State& s : states_) device().launch(Lane::compute, SumSquares{s.sum, *squares});
  return factor_of_clipping(*squares);
}

void NanotronZero1::update() {
  const Tensor factor = clip_gradients();
  for (const Own& own : own_) {
    label(Verb::adam, own.parameter);
    launch_adam(states_[std::size_t(own.parameter)].sum.slice(own.begin, own.count), factor, own.master, own.m, own.v, own.master);
  }
  if (factor) device().free(Lane::compute, factor);
  for (const Own& own : own_) {
    label(Verb::adam, own.parameter);
    device().launch(Lane::compute, Copy{own.master, states_[std::size_t(own.parameter)].param.slice(own.begin, own.count)});
  }
  if (rank().world > 1) gather_parameters();
  label(Verb::release);
  device().launch(Lane::compute, Fill{sums_, 0.f});
}

/// all_gather_coalesced: this rank's slices are flattened, everyone's come into a copy of the model, and from there into it.
void NanotronZero1::gather_parameters() {
  const Lane lane = Lane::compute;
  const int n = rank().world, me = mesh().world.me;
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
