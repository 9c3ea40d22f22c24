// Host arithmetic of causal attention without stored scores: head by head, a few query rows at a time, as FlashAttention does.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <vector>

#include "numerics/elementary.h"
#include "numerics/heads.h"
#include "numerics/softmax.h"

namespace shardsim::numerics {
namespace {

template <class Scalar>
using Matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class Scalar>
using Rectangle = Eigen::Map<Matrix<Scalar>, Eigen::Unaligned, Eigen::OuterStride<>>;

constexpr std::int64_t tile = 64;  // query rows at a time: their scores stay in the cache, and half of the square is left out

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
    Eigen::Map<Matrix<Scalar>> scores(scratch.data(), rows, seen);
    scores.noalias() = root_scale<Scalar>(heads) * q.rows(begin, rows) * k.rows(0, seen).transpose();
    Scalar shares[tile];
    for (std::int64_t i = 0; i < rows; ++i) {
      Scalar* p = scratch.data() + i * seen;
      const std::int64_t past = begin + i + 1;
      const Scalar top = largest<Scalar>(past, [=](std::int64_t j) { return p[j]; });
      for (std::int64_t j = 0; j < past; ++j) p[j] = exp(p[j] - top);
      std::fill(p + past, p + seen, Scalar(0));
      const Scalar total = sum<Scalar>(past, [=](std::int64_t j) { return p[j]; });
      shares[i] = 1 / total;
      lse[(begin + i) * stride] = top + std::log(total);
    }
    out.rows(begin, rows).noalias() = scores * v.rows(0, seen);
    for (std::int64_t i = 0; i < rows; ++i)
      store(type, out.row(begin + i), heads.width,
            [row = out.row(begin + i), share = shares[i]](std::int64_t j) { return row[j] * share; });
  }
}

/// dq of one head; dk and dv are added to.
template <class Scalar>
void attend_backward(const RealHeads& heads, Head<Scalar> q, Head<Scalar> k, Head<Scalar> v, Head<Scalar> out, Head<Scalar> dout,
                     Head<Scalar> dq, Dtype type, const Scalar* lse, std::int64_t stride, std::vector<Scalar>& scratch,
                     Matrix<Scalar>& dk, Matrix<Scalar>& dv) {
  const Scalar scale = root_scale<Scalar>(heads);
  for (std::int64_t begin = 0; begin < heads.sequence; begin += tile) {
    const std::int64_t rows = std::min(tile, heads.sequence - begin), seen = begin + rows;
    Eigen::Map<Matrix<Scalar>> p(scratch.data(), rows, seen), ds(scratch.data() + scratch.size() / 2, rows, seen);
    p.noalias() = scale * q.rows(begin, rows) * k.rows(0, seen).transpose();
    ds.noalias() = dout.rows(begin, rows) * v.rows(0, seen).transpose();
    for (std::int64_t i = 0; i < rows; ++i) {
      Scalar *share = p.data() + i * seen, *slope = ds.data() + i * seen;
      const std::int64_t past = begin + i + 1;
      const Scalar log_total = lse[(begin + i) * stride];
      const Scalar mean =
          sum<Scalar>(heads.width, [x = out.row(begin + i), dx = dout.row(begin + i)](std::int64_t j) { return x[j] * dx[j]; });
      for (std::int64_t j = 0; j < past; ++j) share[j] = exp(share[j] - log_total);
      for (std::int64_t j = 0; j < past; ++j) slope[j] = share[j] * (slope[j] - mean) * scale;
      std::fill(share + past, share + seen, Scalar(0));
      std::fill(slope + past, slope + seen, Scalar(0));
    }
    dq.rows(begin, rows).noalias() = ds * k.rows(0, seen);
    for (std::int64_t i = 0; i < rows; ++i)
      store(type, dq.row(begin + i), heads.width, [row = dq.row(begin + i)](std::int64_t j) { return row[j]; });
    dk.topRows(seen).noalias() += ds.transpose() * q.rows(begin, rows);
    dv.topRows(seen).noalias() += p.transpose() * dout.rows(begin, rows);
  }
}

std::size_t scores_of_a_tile(const RealHeads& heads) { return std::size_t(std::min(tile, heads.sequence) * heads.sequence); }

}  // namespace

template <class Scalar>
void FlashAttention<Scalar>::host(const Attention& o) {
  if (size(o.out) == 0) return;
  const RealHeads heads(o.heads, o.qkv.cols);
  const std::int64_t sequences = real(o.qkv.rows) / heads.sequence;
  std::vector<Scalar> scratch(scores_of_a_tile(heads));
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
  std::vector<Scalar> scratch(2 * scores_of_a_tile(heads));
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
