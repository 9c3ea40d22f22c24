// Kernels of the update: the gradient's squares, what their sum decides, and Adam in one pass over its 28 bytes a parameter.
#pragma once
#include <cmath>

#include "backends/cuda/ops.h"

namespace shardsim::cuda {

template <class On>
void perform(On& on, const SumSquares& o) {
  const Numbers x = numbers(o.x), out = numbers(o.out);
  if (out.count == 0) return;
  constexpr std::int64_t parts = 1024;
  const Numbers partial = on.scratch(parts, Dtype::fp32);
  on.rows(parts, x.count / parts, [=] SHARDSIM_BOTH(typename On::Team team, std::int64_t part) {
    const std::int64_t packs = packs_of(x.count), begin = part_begin(part, parts, packs) * Pack::size;
    const std::int64_t end = std::min(part_begin(part + 1, parts, packs) * Pack::size, x.count);
    const auto square = [](std::int64_t, float each) { return each * each; };
    const float sum = sum_of_row(team, end - begin, square, x.from(begin));
    if (team.lane() == 0) partial.put(part, sum);
  });
  on.rows(1, parts, [=] SHARDSIM_BOTH(typename On::Team team, std::int64_t) {
    const float sum = sum_of_row(team, parts, partial);
    if (team.lane() == 0) out.put(0, out[0] + sum);
  });
}

template <class On>
void perform(On& on, const ClipFactor& o) {
  const Numbers squares = numbers(o.squares), factor = numbers(o.factor), scaler = numbers(o.scaler);  // scale, good steps, updates
  const float limit = o.limit, unscale = o.unscale;
  const LossScale rule = o.rule;
  const std::int64_t n = squares.count;
  on.each(n > 0 ? 1 : 0, [=] SHARDSIM_BOTH(std::int64_t) {
    float sum = 0;
    for (std::int64_t k = 1; k <= n; ++k) sum += squares[k % n];  // from member 1 to member 0, as the ring sums chunk 0
    const float scale = scaler ? scaler[0] : 1.f, norm = unscale / scale * sqrtf(sum);
    const bool skips = rule.dynamic && !(fabsf(sum) < INFINITY);
    factor.put(0, (limit > 0 && norm > limit ? limit / norm : 1.f) / scale);
    factor.put(1, skips ? 1.f : 0.f);
    if (!scaler) return;
    if (skips) {
      scaler.put(0, scale * rule.backoff);
      scaler.put(1, 0.f);
      return;
    }
    const float good = scaler[1] + 1.f;
    scaler.put(2, scaler[2] + 1.f);
    const bool grows = rule.dynamic && good == float(rule.growth_interval);
    scaler.put(1, grows ? 0.f : good);
    if (grows) scaler.put(0, scale * rule.growth);
  });
}

/// 1 - beta^t: what Adam's moments are divided by. In double precision, as on the host.
SHARDSIM_BOTH inline float bias_correction(float beta, double t) { return float(1.0 - pow(double(beta), t)); }

/// What Adam's arithmetic needs beside its five numbers.
struct AdamStep {
  float lr, beta1, beta2, eps, decay, shrink, correction1, correction2, scale;
  bool coupled;
  SHARDSIM_BOTH void operator()(float grad, float& master, float& m, float& v) const {
    float g = grad * scale;
    if (coupled) g += decay * master;
    m = beta1 * m + (1.f - beta1) * g;
    v = beta2 * v + (1.f - beta2) * g * g;
    master = shrink * master - lr * (m / correction1) / (sqrtf(v / correction2) + eps);
  }
};

template <class On>
void perform(On& on, const Adam& o) {
  const Numbers grads = numbers(o.grad), factor = numbers(o.factor), scaler = numbers(o.scaler);
  const Numbers masters = numbers(o.master), ms = numbers(o.m), vs = numbers(o.v), params = numbers(o.param);
  const AdamRule& rule = o.rule;
  const AdamStep host{rule.lr,
                      rule.beta1,
                      rule.beta2,
                      rule.eps,
                      rule.weight_decay,
                      rule.decoupled ? 1.f - rule.lr * rule.weight_decay : 1.f,
                      bias_correction(rule.beta1, o.t),
                      bias_correction(rule.beta2, o.t),
                      o.unscale,
                      rule.weight_decay != 0 && !rule.decoupled};
  const bool is_apart = params.at != masters.at || params.type != Dtype::fp32;
  const std::int64_t n = grads.count;
  on.each(packs_of(n), [=] SHARDSIM_BOTH(std::int64_t p) {
    if (factor && factor[1] != 0) return;
    AdamStep step = host;
    if (factor) step.scale *= factor[0];
    if (scaler) {
      step.correction1 = bias_correction(step.beta1, double(scaler[2]));
      step.correction2 = bias_correction(step.beta2, double(scaler[2]));
    }
    Pack master = load(masters, p, n), m = load(ms, p, n), v = load(vs, p, n);
    const Pack grad = load(grads, p, n);
    for (int i = 0; i < Pack::size; ++i) step(grad.x[i], master.x[i], m.x[i], v.x[i]);
    save(masters, p, n, master);
    save(ms, p, n, m);
    save(vs, p, n, v);
    if (is_apart) save(params, p, n, master);
  });
}

}  // namespace shardsim::cuda
