// Host arithmetic of the update: the gradient's norm, what it decides, and Adam.
#include <cmath>

#include "numerics/arithmetic.h"

namespace shardsim::numerics {

template <class Scalar>
void Updates<Scalar>::host(const SumSquares& o) {
  const Scalar* x = data<Scalar>(o.x);
  Scalar sum = 0;
  for (std::int64_t i = 0, n = size(o.x); i < n; ++i) sum += x[i] * x[i];
  if (size(o.out)) *data<Scalar>(o.out) += sum;
}

template <class Scalar>
void Updates<Scalar>::host(const ClipFactor& o) {
  const std::int64_t n = size(o.squares);
  if (n == 0) return;
  const Scalar* squares = data<Scalar>(o.squares);
  Scalar sum = 0;
  for (std::int64_t k = 1; k <= n; ++k) sum += squares[k % n];   // from member 1 to member 0, as the ring sums chunk 0
  Scalar* scaler = o.scaler ? data<Scalar>(o.scaler) : nullptr;  // scale, good steps, updates
  const Scalar scale = scaler ? scaler[0] : Scalar(1);
  const Scalar norm = o.unscale / scale * std::sqrt(sum);
  const bool skips = o.rule.dynamic && !std::isfinite(sum);
  data<Scalar>(o.factor)[0] = (o.limit > 0 && norm > o.limit ? o.limit / norm : Scalar(1)) / scale;
  data<Scalar>(o.factor)[1] = skips ? 1 : 0;
  if (!scaler) return;
  if (skips) {
    scaler[0] = scale * o.rule.backoff;
    scaler[1] = 0;
    return;
  }
  scaler[1] += 1, scaler[2] += 1;
  if (o.rule.dynamic && scaler[1] == Scalar(o.rule.growth_interval)) scaler[0] = scale * o.rule.growth, scaler[1] = 0;
}

template <class Scalar>
void Updates<Scalar>::host(const Adam& o) {
  const std::int64_t n = size(o.grad);
  if (n == 0) return;
  const Scalar* factor = o.factor ? data<Scalar>(o.factor) : nullptr;  // multiplier, skips
  if (factor && factor[1] != 0) return;
  const AdamRule& rule = o.rule;
  const Scalar lr = rule.lr, beta1 = rule.beta1, beta2 = rule.beta2, eps = rule.eps, decay = rule.weight_decay;
  const double t = o.scaler ? double(data<Scalar>(o.scaler)[2]) : o.t;
  const Scalar correction1 = Scalar(1.0 - std::pow(double(rule.beta1), t));
  const Scalar correction2 = Scalar(1.0 - std::pow(double(rule.beta2), t));
  const Scalar scale = factor ? o.unscale * factor[0] : Scalar(o.unscale);
  const bool coupled = decay != 0 && !rule.decoupled;
  const Scalar shrink = rule.decoupled ? 1 - lr * decay : Scalar(1);
  const Scalar* grad = data<Scalar>(o.grad);
  Scalar *master = data<Scalar>(o.master), *m = data<Scalar>(o.m), *v = data<Scalar>(o.v), *param = data<Scalar>(o.param);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    Scalar g = grad[i] * scale;
    if (coupled) g += decay * master[i];
    m[i] = beta1 * m[i] + (1 - beta1) * g;
    v[i] = beta2 * v[i] + (1 - beta2) * g * g;
    master[i] = shrink * master[i] - lr * (m[i] / correction1) / (std::sqrt(v[i] / correction2) + eps);
  }
  if (param != master || o.param.dtype() != Dtype::fp32)
    store(o.param.dtype(), param, n, [=](std::int64_t i) { return master[i]; });
}

template struct Updates<float>;
template struct Updates<double>;

}  // namespace shardsim::numerics
