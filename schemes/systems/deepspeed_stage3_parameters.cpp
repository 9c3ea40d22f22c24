// deepspeed stage 3: how parameters come and go.
//
// `zero_hpz_partition_size` p (ZeRO++'s hpZ): what is dropped leaves a second shard, of one in p neighbours instead of one in N,
// from which the rest of the step gathers it without leaving those p ranks: 2/p bytes per parameter, gone after the step. The host
// waits for the GPU at every such shard; and a model that is kept from forward to backward gains nothing by it.
// `mics_shard_size` S (MiCS): S neighbours share one copy of everything. A gradient's shards are all-reduced over the N/S copies
// with the last micro-batch, and every parameter is gathered by itself, without flat buffers.
// `zero_quantized_weights` (ZeRO++'s qwZ): a gather during the passes moves 8-bit numbers and the scales of their groups.
#include <algorithm>

#include "core/error.h"
#include "systems/deepspeed_stage3.h"

namespace shardsim {

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

/// What has a secondary shard is gathered by itself, and first.
void DeepSpeedStage3::gather(std::vector<int> wanted, const std::string& trigger) {
  pieces_.sort(wanted);
  const auto others = std::stable_partition(wanted.begin(), wanted.end(), [this](int p) { return bool(states_[p].secondary); });
  for (const auto& [begin, end] : {std::pair(wanted.begin(), others), std::pair(others, wanted.end())}) {
    if (begin == end) continue;
    if (!sequential_ && mics_ <= 0) gather_together({begin, end}, trigger);
    else
      for (auto p = begin; p != end; ++p) gather_together({*p}, trigger);
  }
}

void DeepSpeedStage3::gather_together(std::vector<int> wanted, const std::string& trigger) {
  const auto gather = std::make_shared<Gather>();
  gather->parameters = std::move(wanted);
  gather->unused = gather->parameters.size();
  for (const int p : gather->parameters) states_[p].pending = gather;
  if (shards().size == 1) {
    for (const int p : gather->parameters) states_[p].full = shard_to_send(Lane::compute, p);
    return;
  }
  const bool again = bool(states_[gather->parameters.front()].secondary);
  const bool reduces = fetches_by_all_reduce_ && !again && !quantizes_;
  gather->ranks = again ? secondary_ : shards();
  const Lane lane = this->lane(Lane::gather);
  label(Verb::all_gather, gather->parameters.front());
  after(updated_, lane, Edge::update_before_gather);
  if (!overlaps_) device().wait(lane, device().record(Lane::compute));  // issued from the compute stream: behind what it has queued
  reduces ? launch_all_reduce(*gather, lane) : launch(*gather, lane);
  gather->over = device().record(lane);
  tell({trigger, (reduces ? "all_reduce of " : "all_gather of ") + several(gather->parameters),
        (gather->bytes ? gather->bytes : gather->buffer).bytes(), lane, again ? "their secondary shards" : "", ""});
}

/// A single parameter is a view of the buffer; others are copied out when they are waited for.
void DeepSpeedStage3::launch(Gather& gather, Lane lane) {
  const int first = gather.parameters.front();
  gather.borders = pieces_.borders_of(gather.parameters, gather.ranks);
  if (gather.parameters.size() == 1) lend(gather);
  if (quantizes_) return launch_quantized(gather, lane);
  gather.buffer = alloc(lane, Band::gathered, gather.borders->back(), knobs().precision.param);
  const Dim begin = (*gather.borders)[std::size_t(gather.ranks.me)];
  Tensor from = gather.buffer.slice(begin, (*gather.borders)[std::size_t(gather.ranks.me) + 1] - begin);
  if (gather.copies()) {
    lay_out(lane, gather.parameters, from);
  } else {
    from = own_part(lane, first);
    states_[first].full = gather.buffer.slice(none, parameters()[first].count());
  }
  fabric().all_gather(lane, gather.ranks, from, gather.buffer, Payload::data, gather.borders);
  if (!gather.copies()) give_back(lane, from);
}

/// The own shards, one behind the other.
void DeepSpeedStage3::lay_out(Lane lane, const std::vector<int>& parameters, Tensor to) {
  if (!states_[parameters.front()].secondary) return lay_out_shards(lane, parameters, to);
  Dim at;
  for (const int p : parameters) {
    const Tensor shard = states_[p].secondary;
    device().launch(lane, Copy{shard, to.slice(at, shard.count()), at.charged() > 0});  // torch.cat is one kernel
    at = at + shard.count();
  }
}

void DeepSpeedStage3::lay_out_shards(Lane lane, const std::vector<int>& parameters, Tensor to) {
  std::vector<Chunk> chunks;
  Dim at;
  for (const int p : parameters) {
    chunks.push_back({at, pieces_.at(p), pieces_.own_padded(p)});
    at = at + pieces_.own_padded(p);
  }
  device().launch(lane, ChunkCopy{params_, to, shared(std::move(chunks)), false, 1, false});
}

/// Zeros and the own pieces: the parameters are views of the sum.
void DeepSpeedStage3::launch_all_reduce(Gather& gather, Lane lane) {
  Dim count, at;
  for (const int p : gather.parameters) count = count + parameters()[p].count();
  gather.buffer = alloc(lane, Band::gathered, count, knobs().precision.param);
  device().launch(lane, Fill{gather.buffer, 0.f});
  for (const int p : gather.parameters) {
    State& s = states_[p];
    const Dim own = pieces_.own_piece(p);
    if (own.charged() > 0)
      device().launch(lane, Copy{params_.slice(pieces_.at(p), own), gather.buffer.slice(at + pieces_.own_cut(p), own)});
    s.full = gather.buffer.slice(at, parameters()[p].count());
    at = at + parameters()[p].count();
  }
  lend(gather);
  fabric().all_reduce(lane, shards(), gather.buffer);
}

/// Its parameters are views of the buffer.
void DeepSpeedStage3::lend(Gather& gather) {
  gather.views = gather.parameters.size();
  for (const int p : gather.parameters) states_[p].lender = states_[p].pending;
}

/// The first that waits for a gather gets all of its parameters out. The buffer goes when each of them has been waited for. The
/// events that limit the host are those of the waiting stream, so that gathers which nobody has waited for do not count.
void DeepSpeedStage3::wait(int p) {
  const std::shared_ptr<Gather> gather = std::exchange(states_[p].pending, nullptr);
  --gather->unused;
  const bool moves = gather->ranks.size > 1;
  const Lane lane = copy_lane();
  if (moves) limit(ongoing_fetches_);
  if (!gather->arrived) {
    label(Verb::all_gather, gather->parameters.front());
    after(gather->over, lane, Edge::gather_before_use);
    if (gather->bytes) dequantize(*gather);
    const bool copies = moves && gather->copies();
    if (copies) copy_out(*gather);
    if (lane != Lane::compute) order(lane, Lane::compute, Edge::parameters_before_use);
    if (moves)
      tell({parameters()[p].name + " is needed", copies ? "copies out of the flat buffer" : "compute waits", gather->buffer.bytes(),
            copies ? lane : Lane::compute, "the gather of " + several(gather->parameters),
            copies ? "the flat buffer, when the last of them has been needed" : ""});
    for (const int q : gather->parameters) coordinator_->arrived(q);
    gather->arrived = true;
  }
  if (moves) ongoing_fetches_.push_back(lane == Lane::compute ? gather->over : device().record(lane));
  if (gather->unused > 0) return;
  for (const Tensor& tensor : {gather->bytes, gather->scales, gather->copies() ? gather->buffer : Tensor{}})
    if (tensor) device().free(lane, tensor);
}

void DeepSpeedStage3::copy_out(const Gather& gather) {
  std::vector<Dim> at(gather.borders->begin(), gather.borders->end() - 1);  // of the next parameter, in each rank's part
  for (const int p : gather.parameters) {
    State& s = states_[p];
    s.full = alloc(copy_lane(), Band::gathered, parameters()[p].count(), knobs().precision.param);
    std::vector<Chunk> chunks;
    for (int r = 0; r < gather.ranks.size; ++r) {
      chunks.push_back({pieces_.cut(p, gather.ranks, r), at[std::size_t(r)], pieces_.piece(p, gather.ranks, r)});
      at[std::size_t(r)] = at[std::size_t(r)] + pieces_.padded(p, gather.ranks, r);
    }
    device().launch(copy_lane(), ChunkCopy{gather.buffer, s.full, shared(std::move(chunks)), false, 1, false});
  }
}

/// Freed behind what uses it on the compute stream.
void DeepSpeedStage3::drop(int p) {
  State& s = states_[p];
  if (s.pending) wait(p);
  label(Verb::release, p);
  if (hpz_ > 1 && !s.secondary) keep_secondary(p);
  if (s.lender) {
    if (--s.lender->views == 0) device().free(Lane::compute, s.lender->buffer);
    s.lender.reset();
  } else if (s.full.in != params_.in) {
    device().free(Lane::compute, s.full);
  }
  s.full = {};
}

/// For the rest of the step. The host waits until it is there.
void DeepSpeedStage3::keep_secondary(int p) {
  State& s = states_[p];
  const Dim own = pieces_.piece(p, secondary_, secondary_.me);
  s.secondary = alloc(Lane::compute, Band::param, pieces_.padded(p, secondary_, secondary_.me), knobs().precision.param);
  if (own.charged() > 0)
    device().launch(Lane::compute,
                    Copy{s.full.slice(pieces_.cut(p, secondary_, secondary_.me), own), s.secondary.slice(none, own)});
  if (knobs().omitted != Edge::release_before_gather) device().synchronize();
}

/// The update has made them old.
void DeepSpeedStage3::drop_secondaries() {
  for (State& s : states_) {
    if (s.secondary) device().free(Lane::compute, s.secondary);
    s.secondary = {};
  }
}

}  // namespace shardsim
