// Host arithmetic of causal attention without stored scores: head by head, a few query rows at a time, as FlashAttention does.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "numerics/arithmetic.h"
#include "numerics/elementary.h"
#include "numerics/heads.h"
#include "numerics/softmax.h"

namespace shardsim::numerics {
namespace {

template <class Scalar>
using Matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class Scalar>
using Rectangle = Eigen::Map<Matrix<Scalar>, Eigen::Unaligned, Eigen::OuterStride<>>;

constexpr std::int64_t tile = 32;  // query rows at a time: their scores stay in the cache, and half of the square is left out

constexpr int lanes = 16;  // a multiple of what vector code takes at a time

/// The scores of a tile: `rows` queries from `begin` on, the keys up to the last of them. A row is padded to whole lanes, so that
/// loops over what a query sees need no remainder: past its own token are minus infinities there, which become zeros.
template <class Scalar>
class Tile {
 public:
  Tile(std::vector<Scalar>& scratch, std::int64_t begin, std::int64_t rows)
      : at_(scratch.data()), begin_(begin), rows_(rows), seen_(begin + rows), stride_(in_lanes(seen_)) {}
  static std::size_t size(const RealHeads& heads) { return std::size_t(std::min(tile, heads.sequence) * in_lanes(heads.sequence)); }

  Rectangle<Scalar> matrix() const { return {at_, rows_, seen_, Eigen::OuterStride<>(stride_)}; }
  Scalar* row(std::int64_t i) const { return at_ + i * stride_; }
  /// What query i sees, in whole lanes.
  std::int64_t width(std::int64_t i) const { return in_lanes(begin_ + i + 1); }
  void fill_future(std::int64_t i, Scalar value) const { std::fill(row(i) + begin_ + i + 1, row(i) + stride_, value); }

 private:
  static std::int64_t in_lanes(std::int64_t n) { return (n + lanes - 1) / lanes * lanes; }
  Scalar* at_;
  std::int64_t begin_, rows_, seen_, stride_;
};

/// The tokens of one sequence in the columns of one head.
template <class Scalar>
class Head {
 public:
  Head(const Tensor& in, const RealHeads& heads, std::int64_t sequence, std::int64_t column)
      : row_(real(in.cols)), width_(heads.width), at_(data<Scalar>(in) + sequence * heads.sequence * row_ + column) {}
  Rectangle<Scalar> rows(std::int64_t begin, std::int64_t count) const {
    return {row(begin), count, width_, Eigen::OuterStride<>(row_)};
  }
  Scalar* row(std::int64_t t) const { return at_ + t * row_; }

 private:
  std::int64_t row_, width_;
  Scalar* at_;
};

/// f(j) for j < n, a multiple of the lanes.
template <class F>
void in_whole_lanes(std::int64_t n, F f) {
  for (std::int64_t j = 0; j < n; j += lanes)
#pragma GCC ivdep
    for (int lane = 0; lane < lanes; ++lane) f(j + lane);
}

template <class Scalar>
Scalar root_scale(const RealHeads& heads) {
  return Scalar(1 / std::sqrt(double(heads.width)));
}

/// out = softmax(q k') v of one head, and lse, which stands `stride` apart.
template <class Scalar>
void attend(const RealHeads& heads, Head<Scalar> q, Head<Scalar> k, Head<Scalar> v, Head<Scalar> out, Dtype type, Scalar* lse,
            std::int64_t stride, std::vector<Scalar>& scratch) {
  for (std::int64_t begin = 0; begin < heads.sequence; begin += tile) {
    const std::int64_t rows = std::min(tile, heads.sequence - begin), seen = begin + rows;
    const Tile<Scalar> scores(scratch, begin, rows);
    scores.matrix().noalias() = root_scale<Scalar>(heads) * q.rows(begin, rows) * k.rows(0, seen).transpose();
    Scalar shares[tile];
    for (std::int64_t i = 0; i < rows; ++i) {
      scores.fill_future(i, -std::numeric_limits<Scalar>::infinity());
      Scalar* p = scores.row(i);
      const std::int64_t width = scores.width(i);
      const Scalar top = largest<Scalar>(width, [=](std::int64_t j) { return p[j]; });
      in_whole_lanes(width, [=](std::int64_t j) { p[j] = exp(p[j] - top); });
      scores.fill_future(i, Scalar(0));  // also where top is not a number
      const Scalar total = sum<Scalar>(width, [=](std::int64_t j) { return p[j]; });
      shares[i] = 1 / total;
      lse[(begin + i) * stride] = top + std::log(total);
    }
    out.rows(begin, rows).noalias() = scores.matrix() * v.rows(0, seen);
    for (std::int64_t i = 0; i < rows; ++i)
      store(type, out.row(begin + i), heads.width,
            [row = out.row(begin + i), share = shares[i]](std::int64_t j) { return row[j] * share; });
  }
}

/// dq of one head; dk and dv are added to.
template <class Scalar>
void attend_backward(const RealHeads& heads, Head<Scalar> q, Head<Scalar> k, Head<Scalar> v, Head<Scalar> out, Head<Scalar> dout,
                     Head<Scalar> dq, Dtype type, const Scalar* lse, std::int64_t stride, std::vector<Scalar> (&scratch)[2],
                     Matrix<Scalar>& dk, Matrix<Scalar>& dv) {
  const Scalar scale = root_scale<Scalar>(heads);
  for (std::int64_t begin = 0; begin < heads.sequence; begin += tile) {
    const std::int64_t rows = std::min(tile, heads.sequence - begin), seen = begin + rows;
    const Tile<Scalar> p(scratch[0], begin, rows), ds(scratch[1], begin, rows);
    p.matrix().noalias() = scale * q.rows(begin, rows) * k.rows(0, seen).transpose();
    ds.matrix().noalias() = dout.rows(begin, rows) * v.rows(0, seen).transpose();
    for (std::int64_t i = 0; i < rows; ++i) {
      Scalar *share = p.row(i), *slope = ds.row(i);
      const Scalar log_total = lse[(begin + i) * stride];
      const Scalar mean =
          sum<Scalar>(heads.width, [x = out.row(begin + i), dx = dout.row(begin + i)](std::int64_t j) { return x[j] * dx[j]; });
      in_whole_lanes(p.width(i), [=](std::int64_t j) {
        share[j] = exp(share[j] - log_total);
        slope[j] = share[j] * (slope[j] - mean) * scale;
      });
      p.fill_future(i, Scalar(0));
      ds.fill_future(i, Scalar(0));
    }
    dq.rows(begin, rows).noalias() = ds.matrix() * k.rows(0, seen);
    for (std::int64_t i = 0; i < rows; ++i)
      store(type, dq.row(begin + i), heads.width, [row = dq.row(begin + i)](std::int64_t j) { return row[j]; });
    dk.topRows(seen).noalias() += ds.matrix().transpose() * q.rows(begin, rows);
    dv.topRows(seen).noalias() += p.matrix().transpose() * dout.rows(begin, rows);
  }
}

}  // namespace

template <class Scalar>
void FlashAttention<Scalar>::host(const Attention& o) {
  if (size(o.out) == 0) return;
  const RealHeads heads(o.heads, o.qkv.cols);
  const std::int64_t sequences = real(o.qkv.rows) / heads.sequence;
  std::vector<Scalar> scratch(Tile<Scalar>::size(heads));
  for (std::int64_t n = 0; n < sequences; ++n)
    for (std::int64_t i = 0; i < heads.count; ++i) {
      auto head = [&](const Tensor& in, std::int64_t column) { return Head<Scalar>(in, heads, n, column); };
      attend(heads, head(o.qkv, heads.q(i)), head(o.qkv, heads.k(i)), head(o.qkv, heads.v(i)), head(o.out, heads.q(i)),
             o.out.dtype(), data<Scalar>(o.lse) + n * heads.sequence * heads.count + i, heads.count, scratch);
    }
}

template <class Scalar>
void FlashAttention<Scalar>::host(const AttentionBackward& o) {
  if (size(o.out) == 0) return;
  const RealHeads heads(o.heads, o.qkv.cols);
  const std::int64_t sequences = real(o.qkv.rows) / heads.sequence;
  const Dtype type = o.dqkv.dtype();
  std::vector<Scalar> scratch[2];
  for (std::vector<Scalar>& scores : scratch) scores.resize(Tile<Scalar>::size(heads));
  Matrix<Scalar> dk(heads.sequence, heads.width), dv(heads.sequence, heads.width);
  for (std::int64_t n = 0; n < sequences; ++n)
    for (std::int64_t i = 0; i < heads.count; ++i) {
      auto head = [&](const Tensor& in, std::int64_t column) { return Head<Scalar>(in, heads, n, column); };
      if (i % heads.shared_by() == 0) dk.setZero(), dv.setZero();
      attend_backward(heads, head(o.qkv, heads.q(i)), head(o.qkv, heads.k(i)), head(o.qkv, heads.v(i)), head(o.out, heads.q(i)),
                      head(o.dout, heads.q(i)), head(o.dqkv, heads.q(i)), type,
                      data<Scalar>(o.lse) + n * heads.sequence * heads.count + i, heads.count, scratch, dk, dv);
      if ((i + 1) % heads.shared_by() != 0) continue;  // a key/value head's gradient is the sum over its query heads
      const Head<Scalar> dk_out = head(o.dqkv, heads.k(i)), dv_out = head(o.dqkv, heads.v(i));
      for (std::int64_t t = 0; t < heads.sequence; ++t) {
        store(type, dk_out.row(t), heads.width, [row = dk.row(t).data()](std::int64_t j) { return row[j]; });
        store(type, dv_out.row(t), heads.width, [row = dv.row(t).data()](std::int64_t j) { return row[j]; });
      }
    }
}

template struct FlashAttention<float>;
template struct FlashAttention<double>;

}  // namespace shardsim::numerics
