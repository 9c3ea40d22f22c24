// What an op's kernels are written against. `On` stands for what carries them out: a CUDA stream (stream_executor.cuh), or a plain
// loop on the host, with which the tests run every op's kernels without a GPU.
//
//   on.each(n, f)        f(i) for i < n, in any order, all at once
//   on.rows(n, length, f) f(team, row) for row < n, each of about `length` numbers: a team of threads for each row
//   on.product(Product)  a matrix product, batched perhaps
//   on.copy(from, to, n) n numbers of one type
//   on.scratch(n, type)  memory until the op is over, outside of any band
//   on.parallel()        into how many parts a long sum may be cut
//
// On::Team is a team: lane() and size(), sum(x) and max(x) over its threads, the same for all and in one order always; sync().
#pragma once
#include <algorithm>

#include "backends/cuda/team.h"
#include "core/op.h"

namespace shardsim::cuda {

/// out (m x n, row-major) = scale a (m x k) b (k x n) [+ bias (n)] [+ out], with a given as (k x m) if ta, b as (n x k) if tb.
/// `batch` of them, each `..._step` numbers behind the one before. Sums in fp32; a and b have one type.
struct Product {
  Numbers a, b, out, bias;
  std::int64_t m, n, k;
  bool ta = false, tb = false, accumulate = false;
  float scale = 1;
  std::int64_t batch = 1, a_step = 0, b_step = 0, out_step = 0;
};

/// to[i] = f(from[i], ...) for n numbers, eight at a time; `to` may be one of `from`.
template <class On, class F>
void map(On& on, const Numbers& to, std::int64_t n, F f) {
  on.each(packs_of(n), [=] SHARDSIM_BOTH(std::int64_t p) {
    Pack y;
    for (int i = 0; i < Pack::size; ++i) y.x[i] = f();
    save(to, p, n, y);
  });
}
template <class On, class F>
void map(On& on, const Numbers& to, std::int64_t n, const Numbers& a, F f) {
  on.each(packs_of(n), [=] SHARDSIM_BOTH(std::int64_t p) {
    Pack x = load(a, p, n);
    for (int i = 0; i < Pack::size; ++i) x.x[i] = f(x.x[i]);
    save(to, p, n, x);
  });
}
template <class On, class F>
void map(On& on, const Numbers& to, std::int64_t n, const Numbers& a, const Numbers& b, F f) {
  on.each(packs_of(n), [=] SHARDSIM_BOTH(std::int64_t p) {
    Pack x = load(a, p, n);
    const Pack y = load(b, p, n);
    for (int i = 0; i < Pack::size; ++i) x.x[i] = f(x.x[i], y.x[i]);
    save(to, p, n, x);
  });
}
template <class On, class F>
void map(On& on, const Numbers& to, std::int64_t n, const Numbers& a, const Numbers& b, const Numbers& c, F f) {
  on.each(packs_of(n), [=] SHARDSIM_BOTH(std::int64_t p) {
    Pack x = load(a, p, n);
    const Pack y = load(b, p, n), z = load(c, p, n);
    for (int i = 0; i < Pack::size; ++i) x.x[i] = f(x.x[i], y.x[i], z.x[i]);
    save(to, p, n, x);
  });
}

/// to[i] = x, or to[i] += x if it accumulates: what is added is what would have been stored.
SHARDSIM_BOTH inline void put_or_add(const Numbers& to, std::int64_t i, float x, bool accumulate) {
  to.put(i, accumulate ? to[i] + rounded(to.type, x) : x);
}

/// Where part `part` of `parts` equal ones of `terms` begins.
SHARDSIM_BOTH inline std::int64_t part_begin(std::int64_t part, std::int64_t parts, std::int64_t terms) {
  return terms * part / parts;
}

/// to[e] = sum over t < terms of f(t, e), for e < count, where f(t, p) makes pack p of term t. In two steps, whose order of sums
/// depends on the sizes alone: parts of the terms, of which each column's are neighbours, then columns.
template <class On, class F>
void sum_terms(On& on, const Numbers& to, std::int64_t count, std::int64_t terms, bool accumulate, F f) {
  if (count == 0) return;
  const std::int64_t packs = packs_of(count),
                     wide = std::clamp<std::int64_t>(on.parallel() / packs, 1, std::max<std::int64_t>(1, terms));
  const std::int64_t parts = wide < Pack::size ? wide : wide - wide % Pack::size;  // whole words
  const Numbers partial = on.scratch(count * parts, Dtype::fp32);
  on.each(parts * packs, [=] SHARDSIM_BOTH(std::int64_t at) {
    const std::int64_t part = at / packs, p = at % packs;
    Pack sum{};
    for (std::int64_t t = part_begin(part, parts, terms); t < part_begin(part + 1, parts, terms); ++t) sum += f(t, p);
    const auto put = [&](std::int64_t e, float x) { partial.put(e * parts + part, x); };
    each_number(p, count, put, sum);
  });
  on.rows(count, parts, [=] SHARDSIM_BOTH(typename On::Team team, std::int64_t e) {
    const float sum = sum_of_row(team, parts, partial.from(e * parts));
    if (team.lane() == 0) put_or_add(to, e, sum, accumulate);
  });
}

}  // namespace shardsim::cuda
