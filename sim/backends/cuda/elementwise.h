// Kernels element by element: the formulas are those of numerics/elementwise.cpp, in fp32 whatever the tensors' type.
#pragma once
#include <cmath>

#include "backends/cuda/ops.h"
#include "core/draw.h"

namespace shardsim::cuda {

SHARDSIM_BOTH inline float sigmoid(float x) { return 1.f / (1.f + expf(-x)); }
/// The GELU's (1 + tanh(u)) / 2 is sigmoid(2 u); this is 2 u, and below its slope: 2 sqrt(2/pi) (1 + 3 * 0.044715 x^2).
SHARDSIM_BOTH inline float gelu_argument(float x) { return 1.5957691216057308f * (x + 0.044715f * x * x * x); }
SHARDSIM_BOTH inline float gelu_slope(float x) { return 1.5957691216057308f * (1.f + 3.f * 0.044715f * x * x); }

template <class On>
void perform(On& on, const Tanh& o) {
  map(on, numbers(o.y), size(o.y), numbers(o.x), [] SHARDSIM_BOTH(float x) { return tanhf(x); });
}

template <class On>
void perform(On& on, const TanhBackward& o) {
  map(on, numbers(o.dy), size(o.dy), numbers(o.y), numbers(o.dy),
      [] SHARDSIM_BOTH(float y, float dy) { return dy * (1.f - y * y); });
}

template <class On>
void perform(On& on, const Gelu& o) {
  map(on, numbers(o.y), size(o.y), numbers(o.x), [] SHARDSIM_BOTH(float x) { return x * sigmoid(gelu_argument(x)); });
}

template <class On>
void perform(On& on, const GeluBackward& o) {
  map(on, numbers(o.dy), size(o.dy), numbers(o.x), numbers(o.dy), [] SHARDSIM_BOTH(float x, float dy) {
    const float s = sigmoid(gelu_argument(x));
    return dy * (s + x * s * (1.f - s) * gelu_slope(x));
  });
}

template <class On>
void perform(On& on, const Silu& o) {
  map(on, numbers(o.y), size(o.y), numbers(o.x), [] SHARDSIM_BOTH(float x) { return x * sigmoid(x); });
}

template <class On>
void perform(On& on, const SiluBackward& o) {
  map(on, numbers(o.dy), size(o.dy), numbers(o.x), numbers(o.dy), [] SHARDSIM_BOTH(float x, float dy) {
    const float s = sigmoid(x);
    return dy * (s * (1.f + x * (1.f - s)));
  });
}

template <class On>
void perform(On& on, const SwiGlu& o) {
  map(on, numbers(o.y), size(o.y), numbers(o.gate), numbers(o.up),
      [] SHARDSIM_BOTH(float gate, float up) { return gate * sigmoid(gate) * up; });
}

template <class On>
void perform(On& on, const SwiGluBackward& o) {
  const Numbers gates = numbers(o.gate), ups = numbers(o.up), dys = numbers(o.dy), dgates = numbers(o.dgate), dups = numbers(o.dup);
  const std::int64_t n = size(o.dy);
  on.each(packs_of(n), [=] SHARDSIM_BOTH(std::int64_t p) {
    Pack gate = load(gates, p, n), up = load(ups, p, n);
    const Pack dy = load(dys, p, n);
    for (int i = 0; i < Pack::size; ++i) {
      const float s = sigmoid(gate.x[i]), silu = gate.x[i] * s;
      gate.x[i] = dy.x[i] * up.x[i] * (s + silu * (1.f - s));
      up.x[i] = dy.x[i] * silu;
    }
    save(dgates, p, n, gate);
    save(dups, p, n, up);
  });
}

template <class On>
void perform(On& on, const Scale& o) {
  const float factor = float(o.factor), shift = float(o.shift);
  map(on, numbers(o.y), size(o.y), numbers(o.x), [=] SHARDSIM_BOTH(float x) { return factor * x + shift; });
}

template <class On>
void perform(On& on, const Cube& o) {
  map(on, numbers(o.y), size(o.y), numbers(o.x), [] SHARDSIM_BOTH(float x) { return x * x * x; });
}

template <class On>
void perform(On& on, const CubeBackward& o) {
  map(on, numbers(o.dy), size(o.dy), numbers(o.x), numbers(o.dy),
      [] SHARDSIM_BOTH(float x, float dy) { return dy * (3.f * x * x); });
}

template <class On>
void perform(On& on, const Multiply& o) {
  map(on, numbers(o.y), size(o.y), numbers(o.a), numbers(o.b), [] SHARDSIM_BOTH(float a, float b) { return a * b; });
}

template <class On>
void perform(On& on, const Dropout& o) {
  const Numbers xs = numbers(o.x), masks = numbers(o.mask), ys = numbers(o.y);
  const std::int64_t n = size(o.x);
  const std::uint64_t key = o.key;
  const double share = o.share, factor = 1 / (1 - share);
  on.each(packs_of(n), [=] SHARDSIM_BOTH(std::int64_t p) {
    Pack x = load(xs, p, n), mask;
    for (int i = 0; i < Pack::size; ++i) {
      mask.x[i] = is_dropped(key, std::uint64_t(p * Pack::size + i), share) ? 0.f : 1.f;
      x.x[i] *= mask.x[i] * float(factor);
    }
    save(masks, p, n, mask);
    save(ys, p, n, x);
  });
}

template <class On>
void perform(On& on, const DropoutBackward& o) {
  const float factor = float(1 / (1 - o.share));
  map(on, numbers(o.dx), size(o.dx), numbers(o.dy), numbers(o.mask),
      [=] SHARDSIM_BOTH(float dy, float mask) { return dy * mask * factor; });
}

template <class On>
void perform(On& on, const Add& o) {
  map(on, numbers(o.y), size(o.y), numbers(o.x), numbers(o.y), [] SHARDSIM_BOTH(float x, float y) { return y + x; });
}

template <class On>
void perform(On& on, const Fill& o) {
  const float value = o.value;
  map(on, numbers(o.x), size(o.x), [=] SHARDSIM_BOTH() { return value; });
}

/// Of one type: bytes, which a copy engine may carry.
template <class On>
void perform(On& on, const Copy& o) {
  const Numbers from = numbers(o.from), to = numbers(o.to);
  if (from.type == to.type) on.copy(from, to, to.count);
  else map(on, to, to.count, from, [] SHARDSIM_BOTH(float x) { return x; });
}

template <class On>
void perform(On& on, const ChunkCopy& o) {
  for (const Chunk& chunk : *o.chunks) {
    const Numbers whole = numbers(o.whole).from(real(chunk.in_whole)), flat = numbers(o.flat).from(real(chunk.in_flat));
    const float factor = o.scatters ? float(o.factor) : 1.f;
    map(on, o.scatters ? flat : whole, real(chunk.count), o.scatters ? whole : flat,
        [=] SHARDSIM_BOTH(float x) { return factor * x; });
  }
}

}  // namespace shardsim::cuda
