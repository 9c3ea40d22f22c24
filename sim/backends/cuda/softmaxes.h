// Kernels of softmaxes: a team for each row, which reads it from memory three times at most.
#pragma once
#include <cmath>

#include "backends/cuda/ops.h"

namespace shardsim::cuda {

template <class On>
void perform(On& on, const MaskedSoftmax& o) {
  const Numbers x = numbers(o.x), mask = numbers(o.mask), y = numbers(o.y);
  const std::int64_t s = real(o.x.cols), period = real(o.mask.rows);
  on.rows(real(o.x.rows), [=] SHARDSIM_BOTH(typename On::Team team, std::int64_t row) {
    const std::int64_t at = row * s, seen = row % period * s;
    float top = -INFINITY, total = 0;
    for (std::int64_t j = team.lane(); j < s; j += team.size())
      if (mask[seen + j] != 0) top = fmaxf(top, x[at + j]);
    top = team.max(top);
    if (top == -INFINITY) top = 0;  // nothing is seen: all zero
    for (std::int64_t j = team.lane(); j < s; j += team.size())
      if (mask[seen + j] != 0) total += expf(x[at + j] - top);
    total = team.sum(total);
    const float share = total == 0 ? 0.f : 1.f / total;
    for (std::int64_t j = team.lane(); j < s; j += team.size())
      y.put(at + j, mask[seen + j] != 0 ? expf(x[at + j] - top) * share : 0.f);
  });
}

template <class On>
void perform(On& on, const SoftmaxBackward& o) {
  const Numbers y = numbers(o.y), dy = numbers(o.dy);
  const std::int64_t n = real(o.y.cols);
  on.rows(real(o.y.rows), [=] SHARDSIM_BOTH(typename On::Team team, std::int64_t row) {
    const std::int64_t at = row * n;
    float mean = 0;
    for (std::int64_t j = team.lane(); j < n; j += team.size()) mean += dy[at + j] * y[at + j];
    mean = team.sum(mean);
    for (std::int64_t j = team.lane(); j < n; j += team.size()) dy.put(at + j, y[at + j] * (dy[at + j] - mean));
  });
}

/// log(sum of e^x) = top + log, with top the largest x. The same for all of the team.
struct LogSum {
  float top, log;
};
template <class Team>
SHARDSIM_BOTH LogSum log_sum(Team team, const Numbers& x, std::int64_t at, std::int64_t n) {
  float top = -INFINITY, total = 0;
  for (std::int64_t j = team.lane(); j < n; j += team.size()) top = fmaxf(top, x[at + j]);
  top = team.max(top);
  for (std::int64_t j = team.lane(); j < n; j += team.size()) total += expf(x[at + j] - top);
  return {top, logf(team.sum(total))};
}

template <class On>
void perform(On& on, const LogSoftmax& o) {
  const Numbers x = numbers(o.x), y = numbers(o.y);
  const std::int64_t n = real(o.x.cols);
  on.rows(real(o.x.rows), [=] SHARDSIM_BOTH(typename On::Team team, std::int64_t row) {
    const LogSum of_row = log_sum(team, x, row * n, n);
    for (std::int64_t j = row * n + team.lane(); j < (row + 1) * n; j += team.size()) y.put(j, (x[j] - of_row.top) - of_row.log);
  });
}

template <class On>
void perform(On& on, const LogSoftmaxBackward& o) {
  const Numbers y = numbers(o.y), dy = numbers(o.dy), dx = numbers(o.dx);
  const std::int64_t n = real(o.y.cols);
  on.rows(real(o.y.rows), [=] SHARDSIM_BOTH(typename On::Team team, std::int64_t row) {
    float total = 0;
    for (std::int64_t j = row * n + team.lane(); j < (row + 1) * n; j += team.size()) total += dy[j];
    total = team.sum(total);
    for (std::int64_t j = row * n + team.lane(); j < (row + 1) * n; j += team.size()) dx.put(j, dy[j] - expf(y[j]) * total);
  });
}

}  // namespace shardsim::cuda
