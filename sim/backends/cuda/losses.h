// Kernels of losses. The mean over elements or tokens is made of one number per row, summed by one team in double precision.
#pragma once
#include "backends/cuda/ops.h"

namespace shardsim::cuda {

/// loss += sum of terms / divisor.
template <class On>
void add_mean(On& on, const Numbers& terms, std::int64_t n, double divisor, const Numbers& loss) {
  on.rows(1, n, [=] SHARDSIM_BOTH(typename On::Team team, std::int64_t) {
    double sum = 0;
    for (std::int64_t i = team.lane(); i < n; i += team.size()) sum += double(terms[i]);
    sum = team.sum(sum);
    if (team.lane() == 0) loss.put(0, loss[0] + float(sum / divisor));
  });
}

SHARDSIM_BOTH inline float scale_of(const Numbers& scaler) { return scaler ? scaler[0] : 1.f; }

template <class On>
void perform(On& on, const MseLoss& o) {
  const Numbers pred = numbers(o.pred), target = numbers(o.target), dpred = numbers(o.dpred), scaler = numbers(o.scaler);
  const std::int64_t n = pred.count;
  if (n == 0) return;
  const Numbers squares = on.scratch(n, Dtype::fp32);
  const float scale = float(2.0 / double(n));
  on.each(n, [=] SHARDSIM_BOTH(std::int64_t i) {
    const float difference = pred[i] - target[i];
    squares.put(i, difference * difference);
    dpred.put(i, scale * scale_of(scaler) * difference);
  });
  add_mean(on, squares, n, double(n) * o.micro_batches, numbers(o.loss));
}

/// One kernel: the sum of exponentials, then the gradient, which may replace the logits.
template <class On>
void perform(On& on, const CrossEntropy& o) {
  const Numbers logits = numbers(o.logits), targets = numbers(o.targets), dlogits = numbers(o.dlogits), scaler = numbers(o.scaler);
  const std::int64_t tokens = real(o.logits.rows), n = real(o.logits.cols);
  if (tokens == 0) return;
  const Numbers losses = on.scratch(tokens, Dtype::fp32);
  const float share = float(1.0 / double(tokens));
  on.rows(tokens, n, [=] SHARDSIM_BOTH(typename On::Team team, std::int64_t row) {
    const Numbers x = logits.from(row * n);
    const std::int64_t target = targets.whole(row);
    const LogSum all = log_sum(team, x, n);
    if (team.lane() == 0) losses.put(row, -all.log_share(x[target]));
    team.sync();  // the target's logit has been read
    const float scale = share * scale_of(scaler);
    write_row(
        team, dlogits.from(row * n), n,
        [=](std::int64_t j, float each) { return scale * (all.share(each) - (j == target ? 1.f : 0.f)); }, x);
  });
  add_mean(on, losses, tokens, double(tokens) * o.micro_batches, numbers(o.loss));
}

template <class On>
void perform(On& on, const NllLoss& o) {
  const Numbers logp = numbers(o.logp), targets = numbers(o.targets), dlogp = numbers(o.dlogp), scaler = numbers(o.scaler);
  const std::int64_t tokens = real(o.logp.rows), n = real(o.logp.cols);
  if (tokens == 0) return;
  const Numbers losses = on.scratch(tokens, Dtype::fp32);
  const float share = float(1.0 / double(tokens));
  on.each(tokens, [=] SHARDSIM_BOTH(std::int64_t row) { losses.put(row, -logp[row * n + targets.whole(row)]); });
  on.each(tokens * n,
          [=] SHARDSIM_BOTH(std::int64_t at) { dlogp.put(at, at % n == targets.whole(at / n) ? -share * scale_of(scaler) : 0.f); });
  add_mean(on, losses, tokens, double(tokens) * o.micro_batches, numbers(o.loss));
}

}  // namespace shardsim::cuda
