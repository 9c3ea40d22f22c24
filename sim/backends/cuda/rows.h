// Kernels of biases and embeddings, row by row.
#pragma once
#include "backends/cuda/ops.h"

namespace shardsim::cuda {

/// Row i of x gets row i mod r of the biases: they come again and again.
template <class On>
void add_bias(On& on, const Numbers& x, const Numbers& bias) {
  const std::int64_t n = x.count, period = bias.count;
  if (n == 0) return;
  on.each(packs_of(n), [=] SHARDSIM_BOTH(std::int64_t p) {
    Pack pack = load(x, p, n);
    std::int64_t at = p * Pack::size % period;
    for (int i = 0; i < Pack::size; ++i) {
      pack.x[i] += bias[at];
      if (++at == period) at = 0;
    }
    save(x, p, n, pack);
  });
}

template <class On>
void perform(On& on, const AddBias& o) {
  add_bias(on, numbers(o.x), numbers(o.bias));
}

template <class On>
void perform(On& on, const SumRows& o) {
  const Numbers x = numbers(o.x), out = numbers(o.out);
  if (out.count == 0) return;
  const std::int64_t count = out.count, all = x.count, terms = (all + count - 1) / count;
  sum_terms(on, out, count, terms, o.accumulate, [=] SHARDSIM_BOTH(std::int64_t t, std::int64_t p) {
    const std::int64_t left = all - t * count;  // the last round of rows may be cut short
    return load(x.from(t * count), p, left < count ? left : count);
  });
}

template <class On>
void perform(On& on, const Embed& o) {
  const Numbers ids = numbers(o.ids), table = numbers(o.table), out = numbers(o.out);
  const std::int64_t cols = real(o.out.cols), packs = packs_of(cols);
  on.each(real(o.out.rows) * packs, [=] SHARDSIM_BOTH(std::int64_t at) {
    const std::int64_t row = at / packs, p = at % packs;
    save(out.from(row * cols), p, cols, load(table.from(ids.whole(row) * cols), p, cols));
  });
}

/// Tokens of one id are a list: each knows the next, and whether it is the first. The first one's team adds them up, in order.
template <class On>
void perform(On& on, const EmbedBackward& o) {
  const Numbers ids = numbers(o.ids), dout = numbers(o.dout), dtable = numbers(o.dtable);
  const std::int64_t tokens = real(o.dout.rows), cols = real(o.dout.cols);
  const bool accumulate = o.accumulate;
  if (!accumulate) map(on, dtable, dtable.count, [] SHARDSIM_BOTH() { return 0.f; });
  const Numbers next = on.scratch(tokens, Dtype::int64), is_first = on.scratch(tokens, Dtype::uint8);
  on.rows(tokens, tokens, [=] SHARDSIM_BOTH(typename On::Team team, std::int64_t t) {
    float before = -1, nearest = -INFINITY;  // a token ahead; less the nearest one behind
    for (std::int64_t other = team.lane(); other < tokens; other += team.size()) {
      if (other == t || ids.whole(other) != ids.whole(t)) continue;
      if (other < t) before = float(other);
      else nearest = fmaxf(nearest, -float(other));
    }
    before = team.max(before), nearest = team.max(nearest);
    if (team.lane() != 0) return;
    static_cast<std::int64_t*>(next.at)[t] = nearest == -INFINITY ? -1 : std::int64_t(-nearest);
    is_first.put(t, before < 0 ? 1.f : 0.f);
  });
  on.rows(tokens, cols, [=] SHARDSIM_BOTH(typename On::Team team, std::int64_t first) {
    if (is_first[first] == 0) return;
    const Numbers row = dtable.from(ids.whole(first) * cols);
    each_pack(team, cols, [&](std::int64_t p) {
      Pack sum{};
      for (std::int64_t t = first; t >= 0; t = next.whole(t)) sum += load(dout.from(t * cols), p, cols);
      const auto put = [&](std::int64_t j, float x) { put_or_add(row, j, x, accumulate); };
      each_number(p, cols, put, sum);
    });
  });
}

}  // namespace shardsim::cuda
