// Host arithmetic of softmaxes, row by row.
#include <cmath>
#include <limits>

#include "numerics/arithmetic.h"
#include "numerics/elementary.h"
#include "numerics/softmax.h"

namespace shardsim::numerics {

template <class Scalar>
void Softmaxes<Scalar>::host(const MaskedSoftmax& o) {
  const std::int64_t rows = real(o.x.rows), s = real(o.x.cols), period = real(o.mask.rows);
  for (std::int64_t i = 0; i < rows; ++i) {
    const Scalar *x = data<Scalar>(o.x) + i * s, *mask = data<Scalar>(o.mask) + i % period * s;
    Scalar* y = data<Scalar>(o.y) + i * s;
    const auto seen = [=](std::int64_t j) { return mask[j] != 0 ? x[j] : -std::numeric_limits<Scalar>::infinity(); };
    Scalar top = largest<Scalar>(s, seen);
    if (top == -std::numeric_limits<Scalar>::infinity()) top = 0;  // nothing is seen: all zero
#pragma GCC ivdep
    for (std::int64_t j = 0; j < s; ++j) y[j] = exp(seen(j) - top);
    const Scalar total = sum<Scalar>(s, [=](std::int64_t j) { return y[j]; });
    const Scalar share = total == 0 ? Scalar(0) : 1 / total;
    store(o.y.dtype(), y, s, [=](std::int64_t j) { return y[j] * share; });
  }
}

template <class Scalar>
void Softmaxes<Scalar>::host(const SoftmaxBackward& o) {
  const std::int64_t rows = real(o.y.rows), n = real(o.y.cols);
  for (std::int64_t i = 0; i < rows; ++i) {
    const Scalar* y = data<Scalar>(o.y) + i * n;
    Scalar* dy = data<Scalar>(o.dy) + i * n;
    const Scalar mean = sum<Scalar>(n, [=](std::int64_t j) { return dy[j] * y[j]; });
    store(o.dy.dtype(), dy, n, [=](std::int64_t j) { return y[j] * (dy[j] - mean); });
  }
}

template <class Scalar>
void Softmaxes<Scalar>::host(const LogSoftmax& o) {
  const std::int64_t rows = real(o.x.rows), n = real(o.x.cols);
  for (std::int64_t i = 0; i < rows; ++i) {
    const Scalar* x = data<Scalar>(o.x) + i * n;
    const LogSum<Scalar> of_row = log_sum(x, n);
    store(o.y.dtype(), data<Scalar>(o.y) + i * n, n, [=](std::int64_t j) { return (x[j] - of_row.top) - of_row.log; });
  }
}

template <class Scalar>
void Softmaxes<Scalar>::host(const LogSoftmaxBackward& o) {
  const std::int64_t rows = real(o.y.rows), n = real(o.y.cols);
  for (std::int64_t i = 0; i < rows; ++i) {
    const Scalar *y = data<Scalar>(o.y) + i * n, *dy = data<Scalar>(o.dy) + i * n;
    const Scalar total = sum<Scalar>(n, [=](std::int64_t j) { return dy[j]; });
    store(o.dx.dtype(), data<Scalar>(o.dx) + i * n, n, [=](std::int64_t j) { return dy[j] - exp(y[j]) * total; });
  }
}

template struct Softmaxes<float>;
template struct Softmaxes<double>;

}  // namespace shardsim::numerics
