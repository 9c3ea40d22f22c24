// Kernels of biases and embeddings, row by row.
#pragma once
#include "backends/cuda/ops.h"

namespace shardsim::cuda {

template <class On>
void perform(On& on, const AddBias& o) {
  const Numbers x = numbers(o.x), bias = numbers(o.bias);
  const std::int64_t n = x.count, period = bias.count;
  if (n == 0) return;
  on.each(packs_of(n), [=] SHARDSIM_BOTH(std::int64_t p) {
    Pack pack = load(x, p, n);
    const std::int64_t begin = p * Pack::size % period;  // row i of x gets row i mod r: the biases come again and again
    for (int i = 0; i < Pack::size; ++i) pack.x[i] += bias[(begin + i) % period];
    save(x, p, n, pack);
  });
}

template <class On>
void perform(On& on, const SumRows& o) {
  const Numbers x = numbers(o.x), out = numbers(o.out);
  if (out.count == 0) return;
  const std::int64_t count = out.count, all = x.count, terms = (all + count - 1) / count;
  sum_terms(on, out, count, terms, o.accumulate, [=] SHARDSIM_BOTH(std::int64_t t, std::int64_t e) {
    const std::int64_t at = t * count + e;  // the last round of rows may be cut short
    return at < all ? x[at] : 0.f;
  });
}

template <class On>
void perform(On& on, const Embed& o) {
  const Numbers ids = numbers(o.ids), table = numbers(o.table), out = numbers(o.out);
  const std::int64_t cols = real(o.out.cols);
  on.each(out.count, [=] SHARDSIM_BOTH(std::int64_t at) { out.put(at, table[ids.whole(at / cols) * cols + at % cols]); });
}

/// Tokens of one id are a list: each knows the next, and whether it is the first. The first one's team adds them up, in order.
template <class On>
void perform(On& on, const EmbedBackward& o) {
  const Numbers ids = numbers(o.ids), dout = numbers(o.dout), dtable = numbers(o.dtable);
  const std::int64_t tokens = real(o.dout.rows), cols = real(o.dout.cols);
  const bool accumulate = o.accumulate;
  if (!accumulate) map(on, dtable, dtable.count, [] SHARDSIM_BOTH() { return 0.f; });
  const Numbers next = on.scratch(tokens, Dtype::int64), is_first = on.scratch(tokens, Dtype::uint8);
  on.each(tokens, [=] SHARDSIM_BOTH(std::int64_t t) {
    const std::int64_t id = ids.whole(t);
    std::int64_t before = t - 1, after = t + 1;
    while (before >= 0 && ids.whole(before) != id) --before;
    while (after < tokens && ids.whole(after) != id) ++after;
    static_cast<std::int64_t*>(next.at)[t] = after < tokens ? after : -1;
    is_first.put(t, before < 0 ? 1.f : 0.f);
  });
  on.rows(tokens, [=] SHARDSIM_BOTH(typename On::Team team, std::int64_t first) {
    if (is_first[first] == 0) return;
    const std::int64_t row = ids.whole(first) * cols;
    for (std::int64_t j = team.lane(); j < cols; j += team.size()) {
      float sum = 0;
      for (std::int64_t t = first; t >= 0; t = next.whole(t)) sum += dout[t * cols + j];
      put_or_add(dtable, row + j, sum, accumulate);
    }
  });
}

}  // namespace shardsim::cuda
