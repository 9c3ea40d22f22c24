// Kernels of causal attention without stored scores: query tile by query tile, two products around a softmax that is bound by
// memory. Scores live in scratch memory of one tile, for all heads of all sequences at once.
#pragma once
#include <cmath>

#include "backends/cuda/attention_sizes.h"

namespace shardsim::cuda {

/// Where lse has token t of a head of all sequences.
inline SHARDSIM_BOTH std::int64_t lse_place(const RealHeads& heads, std::int64_t head, std::int64_t t) {
  return (head / heads.count * heads.sequence + t) * heads.count + head % heads.count;
}

/// A query's scores become its shares, in the operands' type; those of the future are 0.
template <class On>
void softmax_of_tile(On& on, const RealHeads& heads, const QueryTile& tile, std::int64_t batch, const Numbers& scores,
                     const Numbers& shares, const Numbers& lse) {
  on.rows(batch * tile.rows, tile.seen, [=] SHARDSIM_BOTH(typename On::Team team, std::int64_t line) {
    const std::int64_t t = tile.begin + line % tile.rows, head = line / tile.rows;
    const Numbers x = scores.from(line * tile.seen);
    const LogSum all = log_sum(team, x, t + 1);
    write_row(
        team, shares.from(line * tile.seen), tile.seen, [=](std::int64_t j, float each) { return j <= t ? all.share(each) : 0.f; },
        x);
    if (team.lane() == 0) lse.put(lse_place(heads, head, t), all.top + all.log);
  });
}

template <class On>
void perform(On& on, const Attention& o) {
  const std::int64_t n = size(o.out);
  if (n == 0) return;
  const AttentionSizes sizes(o);
  const auto& [heads, type, tokens, batch, rows] = sizes;
  const std::int64_t s = heads.sequence, h = heads.width;
  const Numbers q = on.scratch(n, type), k = on.scratch(n, type), v = on.scratch(n, type), out = on.scratch(n, type);
  const Numbers scores = on.scratch(sizes.scores(), Dtype::fp32), shares = on.scratch(scores.count, type);
  split_heads(on, heads, tokens, numbers(o.qkv), q, k, v);
  for (std::int64_t begin = 0; begin < s; begin += rows) {
    const QueryTile tile = tile_at(begin, rows, s);
    Product score{q.from(begin * h), k, scores, {}, tile.rows, tile.seen, h};
    score.tb = true, score.scale = float(1 / std::sqrt(double(h)));
    score.batch = batch, score.a_step = s * h, score.b_step = s * h, score.out_step = tile.rows * tile.seen;
    on.product(score);
    softmax_of_tile(on, heads, tile, batch, scores, shares, numbers(o.lse));
    Product mix{shares, v, out.from(begin * h), {}, tile.rows, h, tile.seen};
    mix.batch = batch, mix.a_step = tile.rows * tile.seen, mix.b_step = s * h, mix.out_step = s * h;
    on.product(mix);
  }
  merge_heads(on, heads, out, numbers(o.out), n, false);
}

/// shares = e^(scores - lse) and slopes = shares (dshares - mean) / sqrt(h): what dk, dv and dq are products of.
template <class On>
void slopes_of_tile(On& on, const RealHeads& heads, const QueryTile& tile, std::int64_t batch, const Numbers& scores,
                    const Numbers& dshares, const Numbers& means, const Numbers& lse, const Numbers& shares,
                    const Numbers& slopes) {
  const float scale = float(1 / std::sqrt(double(heads.width)));
  on.rows(batch * tile.rows, tile.seen, [=] SHARDSIM_BOTH(typename On::Team team, std::int64_t line) {
    const std::int64_t t = tile.begin + line % tile.rows, head = line / tile.rows, begin = line * tile.seen;
    const float log = lse[lse_place(heads, head, t)];
    const float mean = means[head * heads.sequence + t];
    each_pack(team, tile.seen, [&](std::int64_t p) {
      Pack share = load(scores.from(begin), p, tile.seen), slope = load(dshares.from(begin), p, tile.seen);
      for (int i = 0; i < Pack::size; ++i) {
        const bool is_seen = p * Pack::size + i <= t;
        share.x[i] = is_seen ? expf(share.x[i] - log) : 0.f;
        slope.x[i] = is_seen ? share.x[i] * (slope.x[i] - mean) * scale : 0.f;
      }
      save(shares.from(begin), p, tile.seen, share);
      save(slopes.from(begin), p, tile.seen, slope);
    });
  });
}

template <class On>
void perform(On& on, const AttentionBackward& o) {
  const std::int64_t n = size(o.out);
  if (n == 0) return;
  const AttentionSizes sizes(o);
  const auto& [heads, type, tokens, batch, rows] = sizes;
  const std::int64_t s = heads.sequence, h = heads.width;
  const Numbers q = on.scratch(n, type), k = on.scratch(n, type), v = on.scratch(n, type);
  const Numbers out = on.scratch(n, type), dout = on.scratch(n, type), dq = on.scratch(n, type);
  const Numbers dk = on.scratch(n, Dtype::fp32), dv = on.scratch(n, Dtype::fp32), means = on.scratch(batch * s, Dtype::fp32);
  const Numbers scores = on.scratch(sizes.scores(), Dtype::fp32), dshares = on.scratch(scores.count, Dtype::fp32);
  const Numbers shares = on.scratch(scores.count, type), slopes = on.scratch(scores.count, type);
  split_heads(on, heads, tokens, numbers(o.qkv), q, k, v);
  merge_heads(on, heads, out, numbers(o.out), n, true);
  merge_heads(on, heads, dout, numbers(o.dout), n, true);
  for (const Numbers& sum : {dk, dv}) map(on, sum, n, [] SHARDSIM_BOTH() { return 0.f; });
  on.rows(batch * s, h, [=] SHARDSIM_BOTH(typename On::Team team, std::int64_t line) {
    const auto times = [](std::int64_t, float a, float b) { return a * b; };
    const float sum = sum_of_row(team, h, times, out.from(line * h), dout.from(line * h));
    if (team.lane() == 0) means.put(line, sum);
  });
  for (std::int64_t begin = 0; begin < s; begin += rows) {
    const QueryTile tile = tile_at(begin, rows, s);
    const std::int64_t square = tile.rows * tile.seen;
    // Of every head: rows x seen = (rows x h) (seen x h)', rows x h = (rows x seen) (seen x h), seen x h = (rows x seen)' ...
    const auto product = [&](Numbers a, Numbers b, Numbers to, std::int64_t m, std::int64_t cols, std::int64_t inner) {
      Product made{a, b, to, {}, m, cols, inner};
      made.batch = batch, made.a_step = made.b_step = made.out_step = s * h;
      return made;
    };
    Product score = product(q.from(begin * h), k, scores, tile.rows, tile.seen, h);
    score.tb = true, score.out_step = square, score.scale = float(1 / std::sqrt(double(h)));
    on.product(score);
    Product dshare = product(dout.from(begin * h), v, dshares, tile.rows, tile.seen, h);
    dshare.tb = true, dshare.out_step = square;
    on.product(dshare);
    slopes_of_tile(on, heads, tile, batch, scores, dshares, means, numbers(o.lse), shares, slopes);
    Product to_dq = product(slopes, k, dq.from(begin * h), tile.rows, h, tile.seen);
    to_dq.a_step = square;
    on.product(to_dq);
    Product to_dk = product(slopes, q.from(begin * h), dk, tile.seen, h, tile.rows);
    to_dk.ta = true, to_dk.a_step = square, to_dk.accumulate = true;
    on.product(to_dk);
    Product to_dv = product(shares, dout.from(begin * h), dv, tile.seen, h, tile.rows);
    to_dv.ta = true, to_dv.a_step = square, to_dv.accumulate = true;
    on.product(to_dv);
  }
  join_heads(on, heads, tokens, dq, dk, dv, numbers(o.dqkv));
}

}  // namespace shardsim::cuda
