// Kernels on the heads of an attention: how a row of qkv is laid out, rotary positions, masks.
#pragma once
#include <cmath>

#include "backends/cuda/ops.h"
#include "numerics/heads.h"

namespace shardsim::cuda {

using numerics::RealHeads;

/// f(line, p) for each pack p of each of `lines` heads.
template <class On, class F>
void each_head_pack(On& on, const RealHeads& heads, std::int64_t lines, F f) {
  const std::int64_t packs = packs_of(heads.width);
  on.each(lines * packs, [=] SHARDSIM_BOTH(std::int64_t at) { f(at / packs, at % packs); });
}

/// q, k and v as split heads, the keys and values repeated for their query heads.
template <class On>
void split_heads(On& on, const RealHeads& heads, std::int64_t tokens, const Numbers& qkv, const Numbers& q, const Numbers& k,
                 const Numbers& v) {
  each_head_pack(on, heads, tokens * heads.count, [=] SHARDSIM_BOTH(std::int64_t line, std::int64_t p) {
    const RealHeads::Place place = heads.place(line * heads.width);
    const Numbers row = qkv.from(place.token * heads.row);
    const auto move = [&](const Numbers& to, std::int64_t begin) {
      save(to.from(line * heads.width), p, heads.width, load(row.from(begin), p, heads.width));
    };
    move(q, heads.q(place.head));
    move(k, heads.k(place.head));
    move(v, heads.v(place.head));
  });
}

/// dqkv from the gradients of split heads; those of repeated heads are summed.
template <class On>
void join_heads(On& on, const RealHeads& heads, std::int64_t tokens, const Numbers& dq, const Numbers& dk, const Numbers& dv,
                const Numbers& dqkv) {
  const std::int64_t all = heads.count + 2 * heads.kv;
  each_head_pack(on, heads, tokens * all, [=] SHARDSIM_BOTH(std::int64_t line, std::int64_t p) {
    const std::int64_t token = line / all, head = line % all;
    const bool is_query = head < heads.count, is_key = !is_query && head < heads.count + heads.kv;
    const Numbers from = is_query ? dq : is_key ? dk : dv;
    const std::int64_t shared = is_query ? 1 : heads.shared_by();
    const std::int64_t first = is_query ? head : (head - heads.count - (is_key ? 0 : heads.kv)) * shared;
    Pack sum{};
    for (std::int64_t i = first; i < first + shared; ++i)
      sum += load(from.from(heads.split_row(token, i) * heads.width), p, heads.width);
    save(dqkv.from(line * heads.width), p, heads.width, sum);
  });
}

/// Rows of heads from split heads, or the other way round.
template <class On>
void merge_heads(On& on, const RealHeads& heads, const Numbers& split, const Numbers& merged, std::int64_t n, bool inverse) {
  const std::int64_t width = heads.width;
  each_head_pack(on, heads, n / width, [=] SHARDSIM_BOTH(std::int64_t line, std::int64_t p) {
    const RealHeads::Place place = heads.place(line * width);
    const Numbers one = split.from(line * width), other = merged.from((place.token * heads.count + place.head) * width);
    save(inverse ? one : other, p, width, load(inverse ? other : one, p, width));
  });
}

template <class On>
void perform(On& on, const Rotate& o) {
  const RealHeads heads(o.heads, o.qkv.cols);
  const Numbers qkv = numbers(o.qkv);
  const std::int64_t half = heads.width / 2, pairs = (heads.count + heads.kv) * half;
  const double base = o.base, sign = o.inverse ? -1 : 1;
  const Numbers cosines = on.scratch(heads.sequence * half, Dtype::fp32), sines = on.scratch(cosines.count, Dtype::fp32);
  on.each(cosines.count, [=] SHARDSIM_BOTH(std::int64_t at) {
    const double angle = double(at / half) * sign * pow(base, -2.0 * double(at % half) / double(heads.width));
    cosines.put(at, float(cos(angle)));
    sines.put(at, float(sin(angle)));
  });
  on.each(real(o.qkv.rows) * pairs, [=] SHARDSIM_BOTH(std::int64_t at) {
    const std::int64_t row = at / pairs, head = at % pairs / half, i = at % half, angle = row % heads.sequence * half + i;
    const float c = cosines[angle], s = sines[angle];
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
