// Host arithmetic on the heads of an attention: how a row of qkv is laid out, rotary positions, masks.
#include <cmath>
#include <vector>

#include "numerics/arithmetic.h"
#include "numerics/heads.h"

namespace shardsim::numerics {
namespace {

template <class Scalar>
void copy_row(Dtype type, const Scalar* from, Scalar* to, std::int64_t n) {
  store(type, to, n, [=](std::int64_t j) { return from[j]; });
}

}  // namespace

template <class Scalar>
void HeadLayouts<Scalar>::host(const Rotate& o) {
  const RealHeads heads(o.heads, o.qkv.cols);
  const std::int64_t half = heads.width / 2;
  std::vector<double> turn_cos, turn_sin, at_cos(std::size_t(half), 1.0), at_sin(std::size_t(half), 0.0);
  for (std::int64_t i = 0; i < half; ++i) {
    const double angle = std::pow(o.base, -2.0 * double(i) / double(heads.width)) * (o.inverse ? -1 : 1);
    turn_cos.push_back(std::cos(angle)), turn_sin.push_back(std::sin(angle));
  }
  std::vector<Scalar> cosine(at_cos.size()), sine(at_sin.size());
  for (std::int64_t t = 0; t < heads.sequence; ++t) {
    for (std::int64_t i = 0; i < half; ++i) {  // from token to token the angle grows by one turn
      cosine[i] = Scalar(at_cos[i]), sine[i] = Scalar(at_sin[i]);
      const double next = at_cos[i] * turn_cos[i] - at_sin[i] * turn_sin[i];
      at_sin[i] = at_sin[i] * turn_cos[i] + at_cos[i] * turn_sin[i];
      at_cos[i] = next;
    }
    for (std::int64_t row = t, rows = real(o.qkv.rows); row < rows; row += heads.sequence)
      for (std::int64_t head = 0; head < heads.count + heads.kv; ++head) {
        Scalar *low = data<Scalar>(o.qkv) + row * heads.row + head * heads.width, *high = low + half;
        with_rounding_of<Scalar>(o.qkv.dtype(), [=, c = cosine.data(), s = sine.data()](auto round) {
#pragma GCC ivdep
          for (std::int64_t i = 0; i < half; ++i) {
            const Scalar x = low[i], y = high[i];
            low[i] = round(x * c[i] - y * s[i]);
            high[i] = round(y * c[i] + x * s[i]);
          }
        });
      }
  }
}

template <class Scalar>
void HeadLayouts<Scalar>::host(const SplitHeads& o) {
  const RealHeads heads(o.heads, o.qkv.cols);
  for (std::int64_t row = 0, rows = real(o.qkv.rows); row < rows; ++row)
    for (std::int64_t head = 0; head < heads.count; ++head) {
      const Scalar* from = data<Scalar>(o.qkv) + row * heads.row;
      const std::int64_t to = heads.split_row(row, head) * heads.width;
      copy_row(o.q.dtype(), from + heads.q(head), data<Scalar>(o.q) + to, heads.width);
      copy_row(o.k.dtype(), from + heads.k(head), data<Scalar>(o.k) + to, heads.width);
      copy_row(o.v.dtype(), from + heads.v(head), data<Scalar>(o.v) + to, heads.width);
    }
}

template <class Scalar>
void HeadLayouts<Scalar>::host(const SplitHeadsBackward& o) {
  const RealHeads heads(o.heads, o.dqkv.cols);
  std::vector<Scalar> sums(std::size_t(heads.row));
  for (std::int64_t row = 0, rows = real(o.dqkv.rows); row < rows; ++row) {
    sums.assign(sums.size(), Scalar(0));
    auto add = [&](const Tensor& from, std::int64_t head, std::int64_t to) {
      const Scalar* x = data<Scalar>(from) + heads.split_row(row, head) * heads.width;
      for (std::int64_t j = 0; j < heads.width; ++j) sums[to + j] += x[j];
    };
    for (std::int64_t head = 0; head < heads.count; ++head)
      add(o.dq, head, heads.q(head)), add(o.dk, head, heads.k(head)), add(o.dv, head, heads.v(head));
    copy_row(o.dqkv.dtype(), sums.data(), data<Scalar>(o.dqkv) + row * heads.row, heads.row);
  }
}

template <class Scalar>
void HeadLayouts<Scalar>::host(const MergeHeads& o) {
  const std::int64_t count = real(o.heads.count), rows = real(o.out.rows), cols = real(o.out.cols);
  if (count == 0) return;
  const std::int64_t width = cols / count, sequence = real(o.heads.sequence);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t head = 0; head < count; ++head) {
      Scalar* merged = data<Scalar>(o.out) + row * cols + head * width;
      Scalar* split = data<Scalar>(o.x) + ((row / sequence * count + head) * sequence + row % sequence) * width;
      if (o.inverse) copy_row(o.x.dtype(), merged, split, width);
      else copy_row(o.out.dtype(), split, merged, width);
    }
}

template <class Scalar>
void HeadLayouts<Scalar>::host(const CausalMask& o) {
  const std::int64_t s = real(o.mask.rows);
  for (std::int64_t i = 0; i < s; ++i)
    store(o.mask.dtype(), data<Scalar>(o.mask) + i * s, s, [i](std::int64_t j) { return j <= i ? Scalar(1) : Scalar(0); });
}

template struct HeadLayouts<float>;
template struct HeadLayouts<double>;

}  // namespace shardsim::numerics
