// Kernels on the heads of an attention: how a row of qkv is laid out, rotary positions, masks.
#pragma once
#include <cmath>

#include "backends/cuda/ops.h"
#include "numerics/heads.h"

namespace shardsim::cuda {

using numerics::RealHeads;

/// q, k and v as split heads, the keys and values repeated for their query heads.
template <class On>
void split_heads(On& on, const RealHeads& heads, std::int64_t tokens, const Numbers& qkv, const Numbers& q, const Numbers& k,
                 const Numbers& v) {
  on.each(tokens * heads.count * heads.width, [=] SHARDSIM_BOTH(std::int64_t at) {
    const RealHeads::Place place = heads.place(at);
    const Numbers row = qkv.from(place.token * heads.row + place.number);
    q.put(at, row[heads.q(place.head)]);
    k.put(at, row[heads.k(place.head)]);
    v.put(at, row[heads.v(place.head)]);
  });
}

/// dqkv from the gradients of split heads; those of repeated heads are summed.
template <class On>
void join_heads(On& on, const RealHeads& heads, std::int64_t tokens, const Numbers& dq, const Numbers& dk, const Numbers& dv,
                const Numbers& dqkv) {
  on.each(tokens * heads.row, [=] SHARDSIM_BOTH(std::int64_t at) {
    const std::int64_t token = at / heads.row, head = at % heads.row / heads.width, number = at % heads.width;
    if (head < heads.count) return dqkv.put(at, dq[heads.split_row(token, head) * heads.width + number]);
    const bool is_key = head < heads.count + heads.kv;
    const std::int64_t first = (head - heads.count - (is_key ? 0 : heads.kv)) * heads.shared_by();
    float sum = 0;
    for (std::int64_t i = first; i < first + heads.shared_by(); ++i)
      sum += (is_key ? dk : dv)[heads.split_row(token, i) * heads.width + number];
    dqkv.put(at, sum);
  });
}

/// Rows of heads from split heads, or the other way round.
template <class On>
void merge_heads(On& on, const RealHeads& heads, const Numbers& split, const Numbers& merged, std::int64_t n, bool inverse) {
  on.each(n, [=] SHARDSIM_BOTH(std::int64_t at) {
    const RealHeads::Place place = heads.place(at);
    const std::int64_t there = (place.token * heads.count + place.head) * heads.width + place.number;
    if (inverse) split.put(at, merged[there]);
    else merged.put(there, split[at]);
  });
}

template <class On>
void perform(On& on, const Rotate& o) {
  const RealHeads heads(o.heads, o.qkv.cols);
  const Numbers qkv = numbers(o.qkv);
  const std::int64_t half = heads.width / 2, pairs = (heads.count + heads.kv) * half;
  const double base = o.base, sign = o.inverse ? -1 : 1;
  on.each(real(o.qkv.rows) * pairs, [=] SHARDSIM_BOTH(std::int64_t at) {
    const std::int64_t row = at / pairs, head = at % pairs / half, i = at % half;
    const double angle = double(row % heads.sequence) * sign * pow(base, -2.0 * double(i) / double(heads.width));
    const float c = float(cos(angle)), s = float(sin(angle));
    const std::int64_t low = row * heads.row + head * heads.width + i, high = low + half;
    const float x = qkv[low], y = qkv[high];
    qkv.put(low, x * c - y * s);
    qkv.put(high, y * c + x * s);
  });
}

template <class On>
void perform(On& on, const SplitHeads& o) {
  const RealHeads heads(o.heads, o.qkv.cols);
  split_heads(on, heads, real(o.qkv.rows), numbers(o.qkv), numbers(o.q), numbers(o.k), numbers(o.v));
}

template <class On>
void perform(On& on, const SplitHeadsBackward& o) {
  const RealHeads heads(o.heads, o.dqkv.cols);
  join_heads(on, heads, real(o.dqkv.rows), numbers(o.dq), numbers(o.dk), numbers(o.dv), numbers(o.dqkv));
}

template <class On>
void perform(On& on, const MergeHeads& o) {
  RealHeads heads(o.heads, o.out.cols);
  if (heads.count == 0 || size(o.out) == 0) return;
  heads.width = real(o.out.cols) / heads.count;  // of a row of heads, not of qkv
  merge_heads(on, heads, numbers(o.x), numbers(o.out), size(o.out), o.inverse);
}

template <class On>
void perform(On& on, const CausalMask& o) {
  const Numbers mask = numbers(o.mask);
  const std::int64_t s = real(o.mask.rows);
  on.each(s * s, [=] SHARDSIM_BOTH(std::int64_t at) { mask.put(at, at % s <= at / s ? 1.f : 0.f); });
}

}  // namespace shardsim::cuda
