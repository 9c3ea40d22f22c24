// What a team of threads does with a row: its packs are shared out, and a sum or a maximum is the same for all of the team.
//
// A row that begins on whole words moves in whole words; any other one number by number, with the same result.
#pragma once
#include <cmath>

#include "backends/cuda/pack.h"

namespace shardsim::cuda {

/// f(p) for each pack p of a row of n numbers.
template <class Team, class F>
SHARDSIM_BOTH void each_pack(Team team, std::int64_t n, F f) {
  for (std::int64_t p = team.lane(); p < packs_of(n); p += team.size()) f(p);
}

/// f(j, x...) for each number j of pack p of n, x... being that number of each pack.
template <class F, class... Packs>
SHARDSIM_BOTH void each_number(std::int64_t p, std::int64_t n, F& f, const Packs&... packs) {
  const int count = numbers_in(p, n);
  for (int i = 0; i < Pack::size; ++i)
    if (i < count) f(p * Pack::size + i, packs.x[i]...);
}

/// f(j, x...) for each j < n, x... being number j of each row in `from`.
template <class Team, class F, class... From>
SHARDSIM_BOTH void read_row(Team team, std::int64_t n, F f, const From&... from) {
  each_pack(team, n, [&](std::int64_t p) { each_number(p, n, f, load(from, p, n)...); });
}

/// The sum of f(j, x...).
template <class Team, class F, class... From>
SHARDSIM_BOTH float sum_of_row(Team team, std::int64_t n, F f, const From&... from) {
  float sum = 0;
  read_row(
      team, n, [&](std::int64_t j, auto... x) { sum += f(j, x...); }, from...);
  return team.sum(sum);
}

template <class Team>
SHARDSIM_BOTH float sum_of_row(Team team, std::int64_t n, const Numbers& row) {
  const auto itself = [](std::int64_t, float x) { return x; };
  return sum_of_row(team, n, itself, row);
}

/// Pack p of n numbers, each f(j, x...); zeros past the end.
template <class F, class... Packs>
SHARDSIM_BOTH Pack made_pack(std::int64_t p, std::int64_t n, F& f, const Packs&... packs) {
  const int count = numbers_in(p, n);
  Pack made;
  for (int i = 0; i < Pack::size; ++i) made.x[i] = i < count ? f(p * Pack::size + i, packs.x[i]...) : 0.f;
  return made;
}

/// to[j] = f(j, x...). `to` may be one of `from`: a pack is read and written by one thread.
template <class Team, class F, class... From>
SHARDSIM_BOTH void write_row(Team team, const Numbers& to, std::int64_t n, F f, const From&... from) {
  each_pack(team, n, [&](std::int64_t p) { save(to, p, n, made_pack(p, n, f, load(from, p, n)...)); });
}

/// log(sum of e^x) = top + log, with top the largest x.
struct LogSum {
  float top, log;
  /// e^x / (sum of e^x), and its logarithm.
  SHARDSIM_BOTH float share(float x) const { return expf((x - top) - log); }
  SHARDSIM_BOTH float log_share(float x) const { return (x - top) - log; }
};

/// Sums e^x in one pass: what was summed is scaled down where a larger x comes.
struct ExpSum {
  float top = -INFINITY, total = 0;
  SHARDSIM_BOTH void add(float x) {
    if (x > top) {
      total *= expf(top - x);
      top = x;
    }
    total += expf(x - top);
  }
  /// The whole team's, the same for all of it; top is -inf where there was nothing.
  template <class Team>
  SHARDSIM_BOTH LogSum of(Team team) const {
    const float largest = team.max(top);
    return {largest, logf(team.sum(top == largest ? total : total * expf(top - largest)))};
  }
};

template <class Team>
SHARDSIM_BOTH LogSum log_sum(Team team, const Numbers& x, std::int64_t n) {
  ExpSum sum;
  read_row(
      team, n, [&](std::int64_t, float each) { sum.add(each); }, x);
  return sum.of(team);
}

}  // namespace shardsim::cuda
