// Host arithmetic element by element.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/draw.h"
#include "numerics/arithmetic.h"
#include "numerics/elementary.h"

namespace shardsim::numerics {
namespace {

/// The GELU's (1 + tanh(u)) / 2 is sigmoid(2 u); this is 2 u, and below its slope: 2 sqrt(2/pi) (1 + 3 * 0.044715 x^2).
template <class Scalar>
Scalar gelu_argument(Scalar x) {
  return Scalar(1.5957691216057308) * (x + Scalar(0.044715) * x * x * x);
}
template <class Scalar>
Scalar gelu_slope(Scalar x) {
  return Scalar(1.5957691216057308) * (1 + Scalar(3 * 0.044715) * x * x);
}

}  // namespace

template <class Scalar>
void Elementwise<Scalar>::host(const Tanh& o) {
  store<Scalar>(o.y, [x = data<Scalar>(o.x)](std::int64_t i) { return std::tanh(x[i]); });
}

template <class Scalar>
void Elementwise<Scalar>::host(const TanhBackward& o) {
  store<Scalar>(o.dy, [y = data<Scalar>(o.y), dy = data<Scalar>(o.dy)](std::int64_t i) { return dy[i] * (1 - y[i] * y[i]); });
}

template <class Scalar>
void Elementwise<Scalar>::host(const Gelu& o) {
  store<Scalar>(o.y, [x = data<Scalar>(o.x)](std::int64_t i) { return x[i] * sigmoid(gelu_argument(x[i])); });
}

template <class Scalar>
void Elementwise<Scalar>::host(const GeluBackward& o) {
  store<Scalar>(o.dy, [x = data<Scalar>(o.x), dy = data<Scalar>(o.dy)](std::int64_t i) {
    const Scalar s = sigmoid(gelu_argument(x[i]));
    return dy[i] * (s + x[i] * s * (1 - s) * gelu_slope(x[i]));
  });
}

template <class Scalar>
void Elementwise<Scalar>::host(const Silu& o) {
  store<Scalar>(o.y, [x = data<Scalar>(o.x)](std::int64_t i) { return x[i] * sigmoid(x[i]); });
}

template <class Scalar>
void Elementwise<Scalar>::host(const SiluBackward& o) {
  store<Scalar>(o.dy, [x = data<Scalar>(o.x), dy = data<Scalar>(o.dy)](std::int64_t i) {
    const Scalar s = sigmoid(x[i]);
    return dy[i] * (s * (1 + x[i] * (1 - s)));
  });
}

template <class Scalar>
void Elementwise<Scalar>::host(const SwiGlu& o) {
  store<Scalar>(
      o.y, [gate = data<Scalar>(o.gate), up = data<Scalar>(o.up)](std::int64_t i) { return gate[i] * sigmoid(gate[i]) * up[i]; });
}

template <class Scalar>
void Elementwise<Scalar>::host(const SwiGluBackward& o) {
  const Scalar *gate = data<Scalar>(o.gate), *up = data<Scalar>(o.up), *dy = data<Scalar>(o.dy);
  Scalar *dgate = data<Scalar>(o.dgate), *dup = data<Scalar>(o.dup);
  with_rounding_of<Scalar>(o.dgate.dtype(), [=, n = size(o.dy)](auto round) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      const Scalar s = sigmoid(gate[i]), silu = gate[i] * s, above = dy[i];
      dgate[i] = round(above * up[i] * (s + silu * (1 - s)));
      dup[i] = round(above * silu);
    }
  });
}

template <class Scalar>
void Elementwise<Scalar>::host(const Scale& o) {
  store<Scalar>(o.y, [x = data<Scalar>(o.x), factor = Scalar(o.factor), shift = Scalar(o.shift)](std::int64_t i) {
    return factor * x[i] + shift;
  });
}

template <class Scalar>
void Elementwise<Scalar>::host(const Cube& o) {
  store<Scalar>(o.y, [x = data<Scalar>(o.x)](std::int64_t i) { return x[i] * x[i] * x[i]; });
}

template <class Scalar>
void Elementwise<Scalar>::host(const CubeBackward& o) {
  store<Scalar>(o.dy, [x = data<Scalar>(o.x), dy = data<Scalar>(o.dy)](std::int64_t i) { return dy[i] * (3 * x[i] * x[i]); });
}

template <class Scalar>
void Elementwise<Scalar>::host(const Multiply& o) {
  store<Scalar>(o.y, [a = data<Scalar>(o.a), b = data<Scalar>(o.b)](std::int64_t i) { return a[i] * b[i]; });
}

template <class Scalar>
void Elementwise<Scalar>::host(const Dropout& o) {
  Scalar* mask = data<Scalar>(o.mask);
  for (std::int64_t i = 0, n = size(o.mask); i < n; ++i) mask[i] = is_dropped(o.key, std::uint64_t(i), o.share) ? 0 : 1;
  host(DropoutBackward{o.x, o.mask, o.y, o.share});  // what is done to a gradient is what was done to x
}

template <class Scalar>
void Elementwise<Scalar>::host(const DropoutBackward& o) {
  store<Scalar>(o.dx, [dy = data<Scalar>(o.dy), mask = data<Scalar>(o.mask), factor = Scalar(1 / (1 - o.share))](std::int64_t i) {
    return dy[i] * mask[i] * factor;
  });
}

template <class Scalar>
void Elementwise<Scalar>::host(const Copy& o) {
  store<Scalar>(o.to, [from = data<Scalar>(o.from)](std::int64_t i) { return from[i]; });
}

template <class Scalar>
void Elementwise<Scalar>::host(const ChunkCopy& o) {
  for (const Chunk& chunk : *o.chunks) {
    Scalar *whole = data<Scalar>(o.whole) + real(chunk.in_whole), *flat = data<Scalar>(o.flat) + real(chunk.in_flat);
    const Scalar factor = o.scatters ? Scalar(o.factor) : Scalar(1);
    const Scalar* from = o.scatters ? whole : flat;
    store<Scalar>((o.scatters ? o.flat : o.whole).dtype(), o.scatters ? flat : whole, real(chunk.count),
                  [=](std::int64_t i) { return factor * from[i]; });
  }
}

/// x into q and scales, in as many groups as scales is charged for.
template <class Scalar>
void quantize(const Scalar* x, std::int64_t n, int bits, const Tensor& into, const Tensor& their_scales) {
  Scalar *q = data<Scalar>(into), *scales = data<Scalar>(their_scales);
  const std::int64_t groups = their_scales.count().charged();
  const auto most = Scalar(1 << (bits - 1));
  for (std::int64_t group = 0; group < groups; ++group) {
    const std::int64_t begin = n * group / groups, end = n * (group + 1) / groups;
    Scalar largest = 0;
    for (std::int64_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(x[i]));
    const Scalar scale = largest > 0 ? largest / most : 1;
    std::fill(scales + begin, scales + end, scale);
    for (std::int64_t i = begin; i < end; ++i) q[i] = std::clamp(std::nearbyint(x[i] / scale), -most, most - 1);
  }
}

template <class Scalar>
void Elementwise<Scalar>::host(const Quantize& o) {
  quantize(data<Scalar>(o.x), size(o.x), o.bits, o.q, o.scales);
}

template <class Scalar>
void Elementwise<Scalar>::host(const Dequantize& o) {
  store<Scalar>(o.x, [q = data<Scalar>(o.q), scales = data<Scalar>(o.scales)](std::int64_t i) { return scales[i] * q[i]; });
}

template <class Scalar>
void Elementwise<Scalar>::host(const SumQuantized& o) {
  const Scalar *q = data<Scalar>(o.q), *scales = data<Scalar>(o.scales);
  const std::int64_t n = size(o.sum_q);
  std::vector<Scalar> sum(std::size_t(n), 0);
  for (int part = 0; part < o.parts; ++part)
    for (std::int64_t i = 0; i < n; ++i) sum[std::size_t(i)] += scales[part * n + i] * q[part * n + i];
  quantize(sum.data(), n, o.bits, o.sum_q, o.sum_scales);
}

template <class Scalar>
void Elementwise<Scalar>::host(const Add& o) {
  store<Scalar>(o.y, [x = data<Scalar>(o.x), y = data<Scalar>(o.y)](std::int64_t i) { return y[i] + x[i]; });
}

template <class Scalar>
void Elementwise<Scalar>::host(const Fill& o) {
  store<Scalar>(o.x, [value = Scalar(o.value)](std::int64_t) { return value; });
}

template struct Elementwise<float>;
template struct Elementwise<double>;

}  // namespace shardsim::numerics
