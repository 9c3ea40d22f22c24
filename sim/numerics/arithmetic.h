// The host arithmetic of every op, by kind: one overload of `host` per op, each kind in a .cpp of its own; and what they share.
//
// Scalar is what storage holds. Sums are made in Scalar, and a result is rounded once to its tensor's type, which in double means
// not at all. Bits depend on the real sizes, never on where a tensor begins: matrix products are Eigen's, sums are sum() below.
#pragma once
#include <cassert>
#include <cstdint>
#include <type_traits>

#include "numerics/host.h"
#include "numerics/real.h"

namespace shardsim::numerics {

// clang-format off
template <class Scalar> struct Products {
  static void host(const Matmul&); static void host(const BatchedMatmul&);
};
template <class Scalar> struct Elementwise {
  static void host(const Tanh&); static void host(const TanhBackward&); static void host(const Gelu&);
  static void host(const GeluBackward&); static void host(const Silu&); static void host(const SiluBackward&);
  static void host(const SwiGlu&); static void host(const SwiGluBackward&); static void host(const Scale&);
  static void host(const Cube&); static void host(const CubeBackward&); static void host(const Multiply&);
  static void host(const Dropout&); static void host(const DropoutBackward&);
  static void host(const Copy&); static void host(const ChunkCopy&); static void host(const Quantize&);
  static void host(const Dequantize&); static void host(const SumQuantized&); static void host(const Add&);
  static void host(const Fill&);
};
template <class Scalar> struct Rows {
  static void host(const AddBias&); static void host(const SumRows&); static void host(const Embed&);
  static void host(const EmbedBackward&); static void host(const Norm&); static void host(const NormBackward&);
};
template <class Scalar> struct HeadLayouts {
  static void host(const Rotate&); static void host(const SplitHeads&); static void host(const SplitHeadsBackward&);
  static void host(const MergeHeads&); static void host(const CausalMask&);
};
template <class Scalar> struct FlashAttention {
  static void host(const Attention&); static void host(const AttentionBackward&);
};
template <class Scalar> struct Softmaxes {
  static void host(const MaskedSoftmax&); static void host(const SoftmaxBackward&); static void host(const LogSoftmax&);
  static void host(const LogSoftmaxBackward&);
};
template <class Scalar> struct Losses {
  static void host(const MseLoss&); static void host(const CrossEntropy&); static void host(const NllLoss&);
};
template <class Scalar> struct Updates {
  static void host(const SumSquares&); static void host(const ClipFactor&); static void host(const Adam&);
};
// clang-format on

template <class Scalar>
struct Arithmetic : Products<Scalar>,
                    Elementwise<Scalar>,
                    Rows<Scalar>,
                    HeadLayouts<Scalar>,
                    FlashAttention<Scalar>,
                    Softmaxes<Scalar>,
                    Losses<Scalar>,
                    Updates<Scalar> {
  using Products<Scalar>::host;
  using Elementwise<Scalar>::host;
  using Rows<Scalar>::host;
  using HeadLayouts<Scalar>::host;
  using FlashAttention<Scalar>::host;
  using Softmaxes<Scalar>::host;
  using Losses<Scalar>::host;
  using Updates<Scalar>::host;
};

inline std::int64_t real(Dim dim) { return Real::of(dim); }
inline std::int64_t size(const Tensor& tensor) { return real(tensor.count()); }

/// A token's id below `limit`, from the number that stores it.
template <class Scalar>
std::int64_t whole_number(Scalar x, std::int64_t limit) {
  assert(x >= 0 && x < Scalar(limit));
  return std::int64_t(x);
}

/// f(round), as with_rounding; doubles are not rounded.
template <class Scalar, class F>
void with_rounding_of(Dtype type, F f) {
  if constexpr (std::is_same_v<Scalar, float>) with_rounding(type, f);
  else f([](Scalar x) { return x; });
}

/// to[i] = rounded f(i) for i < n. f may read to[i] or a vector that is `to` itself, but no other element of it.
template <class Scalar, class F>
void store(Dtype type, Scalar* to, std::int64_t n, F f) {
  with_rounding_of<Scalar>(type, [=](auto round) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) to[i] = round(f(i));
  });
}
template <class Scalar, class F>
void store(const Tensor& to, F f) {
  store(to.dtype(), data<Scalar>(to), size(to), f);
}

/// to = values or, if accumulate, to += values: what is added is what would have been stored.
template <class Scalar>
void store_or_add(const Tensor& to, const Scalar* values, bool accumulate) {
  Scalar* at = data<Scalar>(to);
  if (!accumulate) return store<Scalar>(to, [=](std::int64_t i) { return values[i]; });
  with_rounding_of<Scalar>(to.dtype(), [=, n = size(to)](auto round) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) at[i] = round(at[i] + round(values[i]));
  });
}

/// f(i) of all i < n joined with `first`, in an order that depends on n alone; 32 bytes at a time, by the compiler's own vectors.
template <class Scalar, class F, class Join>
Scalar reduced(std::int64_t n, Scalar first, F f, Join join) {
  using Lanes [[gnu::vector_size(32)]] = Scalar;
  constexpr int lanes = sizeof(Lanes) / sizeof(Scalar);
  Lanes part;
  for (int lane = 0; lane < lanes; ++lane) part[lane] = first;
  const std::int64_t whole = n - n % lanes;
  for (std::int64_t i = 0; i < whole; i += lanes) {
    Lanes next;
    for (int lane = 0; lane < lanes; ++lane) next[lane] = f(i + lane);
    part = join(part, next);
  }
  for (std::int64_t i = whole; i < n; ++i) part[i % lanes] = join(Scalar(part[i % lanes]), f(i));
  Scalar all = part[0];
  for (int lane = 1; lane < lanes; ++lane) all = join(all, Scalar(part[lane]));
  return all;
}
template <class Scalar, class F>
Scalar sum(std::int64_t n, F f) {
  return reduced(n, Scalar(0), f, [](auto a, auto b) { return a + b; });
}

}  // namespace shardsim::numerics
