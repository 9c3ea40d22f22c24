// The rules of the update: Adam, its learning-rate schedule, and loss scaling. Plain numbers; the arithmetic is in numerics/.
#pragma once
#include <cmath>

namespace shardsim {

/// How Adam is carried out, in PyTorch's words: `fused` in one kernel; `foreach` in passes over all tensors, with a temporary of
/// the size of v; `for_loop` in the same passes over one tensor after another. Bits are the same; time and memory differ.
enum class AdamPasses : unsigned char { fused, foreach, for_loop };

struct AdamRule {
  float lr = 1e-3f, beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f, weight_decay = 0.f;
  bool decoupled = false;  ///< AdamW: the decay bypasses the moments
  AdamPasses passes = AdamPasses::fused;
};

/// Learning rate of a step, as a share of the rule's: rises linearly over `warmup` steps, then falls along a cosine to `floor` at
/// step `decay_steps` and stays there. Constant when both are 0.
struct LrSchedule {
  int warmup = 0, decay_steps = 0;
  double floor = 0;

  double at(int step) const {
    if (step < warmup) return double(step + 1) / warmup;
    if (decay_steps == 0) return 1;
    if (step >= decay_steps) return floor;
    const double done = double(step - warmup) / (decay_steps - warmup);
    return floor + (1 - floor) * 0.5 * (1 + std::cos(3.14159265358979323846 * done));
  }
};

/// Loss scaling: the loss's gradient is multiplied by `initial`, and divided out before clipping. When dynamic, a step whose
/// gradient is not finite is skipped on all ranks and multiplies the scale by `backoff`; `growth_interval` good steps in a row
/// multiply it by `growth`. Names and defaults are those of PyTorch's GradScaler.
struct LossScale {
  bool on = false, dynamic = false;
  float initial = 65536.f, growth = 2.f, backoff = 0.5f;
  int growth_interval = 2000;
};

}  // namespace shardsim
