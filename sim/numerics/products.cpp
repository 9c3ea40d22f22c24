// Host arithmetic of matrix products, which are Eigen's.
#include <Eigen/Core>
#include <cmath>
#include <vector>

#include "numerics/arithmetic.h"

namespace shardsim::numerics {
namespace {

template <class Scalar>
using Matrix = Eigen::Map<Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

/// f(a, b), either transposed or not.
template <class Scalar, class F>
void transposed(const Matrix<Scalar>& a, const Matrix<Scalar>& b, bool ta, bool tb, F f) {
  if (ta && tb) f(a.transpose(), b.transpose());
  else if (ta) f(a.transpose(), b);
  else if (tb) f(a, b.transpose());
  else f(a, b);
}

/// x (m x n) = rounded x [+ bias].
template <class Scalar>
void finish(Dtype type, Scalar* x, std::int64_t m, std::int64_t n, const Tensor& bias) {
  if (!bias) {
    if (type != Dtype::fp32) store(type, x, m * n, [=](std::int64_t i) { return x[i]; });
    return;
  }
  for (std::int64_t row = 0; row < m; ++row)
    store(type, x + row * n, n, [at = x + row * n, b = data<Scalar>(bias)](std::int64_t j) { return at[j] + b[j]; });
}

}  // namespace

template <class Scalar>
void Products<Scalar>::host(const Matmul& o) {
  const std::int64_t m = real(o.out.rows), n = real(o.out.cols);
  if (m * n == 0) return;
  const Matrix<Scalar> a(data<Scalar>(o.a), real(o.a.rows), real(o.a.cols));
  const Matrix<Scalar> b(data<Scalar>(o.b), real(o.b.rows), real(o.b.cols));
  std::vector<Scalar> apart(o.accumulate ? std::size_t(m * n) : 0);  // a product's order of sums does not depend on what is there
  Scalar* to = o.accumulate ? apart.data() : data<Scalar>(o.out);
  Matrix<Scalar> product(to, m, n);
  transposed<Scalar>(a, b, o.ta, o.tb, [&](const auto& x, const auto& y) { product.noalias() = x * y; });
  finish(o.out.dtype(), to, m, n, o.bias);
  if (o.accumulate) store<Scalar>(o.out, [at = data<Scalar>(o.out), to](std::int64_t i) { return at[i] + to[i]; });
}

template <class Scalar>
void Products<Scalar>::host(const BatchedMatmul& o) {
  const std::int64_t batch = real(o.batch);
  if (batch == 0 || size(o.out) == 0) return;
  auto nth = [batch](const Tensor& tensor, std::int64_t i) {
    return Matrix<Scalar>(data<Scalar>(tensor) + i * (size(tensor) / batch), real(tensor.rows) / batch, real(tensor.cols));
  };
  const Scalar scale = Scalar(1 / std::sqrt(double(real(o.root))));
  for (std::int64_t i = 0; i < batch; ++i) {
    Matrix<Scalar> out = nth(o.out, i);
    transposed<Scalar>(nth(o.a, i), nth(o.b, i), o.ta, o.tb, [&](const auto& x, const auto& y) { out.noalias() = scale * x * y; });
    finish(o.out.dtype(), out.data(), out.rows(), out.cols(), {});
  }
}

template struct Products<float>;
template struct Products<double>;

}  // namespace shardsim::numerics
