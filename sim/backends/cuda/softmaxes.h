// Kernels of softmaxes: a team for each row, which reads it from memory twice.
#pragma once
#include "backends/cuda/ops.h"

namespace shardsim::cuda {

template <class On>
void perform(On& on, const MaskedSoftmax& o) {
  const Numbers xs = numbers(o.x), masks = numbers(o.mask), ys = numbers(o.y);
  const std::int64_t s = real(o.x.cols), period = real(o.mask.rows);
  on.rows(real(o.x.rows), s, [=] SHARDSIM_BOTH(typename On::Team team, std::int64_t row) {
    const Numbers x = xs.from(row * s), mask = masks.from(row % period * s);
    ExpSum sum;
    read_row(
        team, s,
        [&](std::int64_t, float each, float seen) {
          if (seen != 0) sum.add(each);
        },
        x, mask);
    const LogSum all = sum.of(team);
    write_row(
        team, ys.from(row * s), s, [&](std::int64_t, float each, float seen) { return seen != 0 ? all.share(each) : 0.f; }, x,
        mask);
  });
}

template <class On>
void perform(On& on, const SoftmaxBackward& o) {
  const Numbers ys = numbers(o.y), dys = numbers(o.dy);
  const std::int64_t n = real(o.y.cols);
  on.rows(real(o.y.rows), n, [=] SHARDSIM_BOTH(typename On::Team team, std::int64_t row) {
    const Numbers y = ys.from(row * n), dy = dys.from(row * n);
    const auto times = [](std::int64_t, float a, float b) { return a * b; };
    const float mean = sum_of_row(team, n, times, y, dy);
    write_row(
        team, dy, n, [=](std::int64_t, float a, float b) { return a * (b - mean); }, y, dy);
  });
}

template <class On>
void perform(On& on, const LogSoftmax& o) {
  const Numbers xs = numbers(o.x), ys = numbers(o.y);
  const std::int64_t n = real(o.x.cols);
  on.rows(real(o.x.rows), n, [=] SHARDSIM_BOTH(typename On::Team team, std::int64_t row) {
    const Numbers x = xs.from(row * n);
    const LogSum all = log_sum(team, x, n);
    write_row(
        team, ys.from(row * n), n, [=](std::int64_t, float each) { return all.log_share(each); }, x);
  });
}

template <class On>
void perform(On& on, const LogSoftmaxBackward& o) {
  const Numbers ys = numbers(o.y), dys = numbers(o.dy), dxs = numbers(o.dx);
  const std::int64_t n = real(o.y.cols);
  on.rows(real(o.y.rows), n, [=] SHARDSIM_BOTH(typename On::Team team, std::int64_t row) {
    const Numbers y = ys.from(row * n), dy = dys.from(row * n);
    const float total = sum_of_row(team, n, dy);
    write_row(
        team, dxs.from(row * n), n, [=](std::int64_t, float slope, float log) { return slope - expf(log) * total; }, dy, y);
  });
}

}  // namespace shardsim::cuda
