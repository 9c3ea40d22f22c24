// Host arithmetic row by row: biases, embeddings, norms.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

#include "numerics/arithmetic.h"

namespace shardsim::numerics {

template <class Scalar>
void Rows<Scalar>::host(const AddBias& o) {
  const std::int64_t rows = real(o.x.rows), cols = real(o.x.cols), period = real(o.bias.rows);
  for (std::int64_t i = 0; i < rows; ++i)
    store(o.x.dtype(), data<Scalar>(o.x) + i * cols, cols,
          [x = data<Scalar>(o.x) + i * cols, bias = data<Scalar>(o.bias) + i % period * cols](std::int64_t j) {
            return x[j] + bias[j];
          });
}

template <class Scalar>
void Rows<Scalar>::host(const SumRows& o) {
  const std::int64_t rows = real(o.x.rows), cols = real(o.x.cols), period = real(o.out.rows);
  std::vector<Scalar> sums(std::size_t(period * cols));
  for (std::int64_t i = 0; i < rows; ++i) {
    const Scalar* x = data<Scalar>(o.x) + i * cols;
    Scalar* sum = sums.data() + i % period * cols;
    for (std::int64_t j = 0; j < cols; ++j) sum[j] += x[j];
  }
  store_or_add(o.out, sums.data(), o.accumulate);
}

template <class Scalar>
void Rows<Scalar>::host(const Embed& o) {
  const std::int64_t rows = real(o.out.rows), cols = real(o.out.cols);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t id = whole_number(data<Scalar>(o.ids)[i], real(o.table.rows));
    store(o.out.dtype(), data<Scalar>(o.out) + i * cols, cols,
          [row = data<Scalar>(o.table) + id * cols](std::int64_t j) { return row[j]; });
  }
}

template <class Scalar>
void Rows<Scalar>::host(const EmbedBackward& o) {
  const std::int64_t rows = real(o.dout.rows), cols = real(o.dout.cols);
  std::vector<Scalar> sums(std::size_t(size(o.dtable)));
  for (std::int64_t i = 0; i < rows; ++i) {
    const Scalar* x = data<Scalar>(o.dout) + i * cols;
    Scalar* sum = sums.data() + whole_number(data<Scalar>(o.ids)[i], real(o.dtable.rows)) * cols;
    for (std::int64_t j = 0; j < cols; ++j) sum[j] += x[j];
  }
  store_or_add(o.dtable, sums.data(), o.accumulate);
}

template <class Scalar>
void Rows<Scalar>::host(const Norm& o) {
  const std::int64_t rows = real(o.x.rows), d = real(o.x.cols);
  const bool centred = bool(o.bias);
  const Scalar *gain = data<Scalar>(o.gain), *bias = centred ? data<Scalar>(o.bias) : nullptr;
  for (std::int64_t i = 0; i < rows; ++i) {
    const Scalar* x = data<Scalar>(o.x) + i * d;
    Scalar *y = data<Scalar>(o.y) + i * d, *stats = data<Scalar>(o.stats) + i * (centred ? 2 : 1);
    const Scalar mean = centred ? sum<Scalar>(d, [=](std::int64_t j) { return x[j]; }) / Scalar(d) : Scalar(0);
    const Scalar square = sum<Scalar>(d, [=](std::int64_t j) { return (x[j] - mean) * (x[j] - mean); }) / Scalar(d);
    const Scalar inverse = 1 / std::sqrt(square + Scalar(o.eps));
    if (centred) {
      stats[0] = mean, stats[1] = inverse;
      store(o.y.dtype(), y, d, [=](std::int64_t j) { return (x[j] - mean) * inverse * gain[j] + bias[j]; });
    } else {
      stats[0] = inverse;
      store(o.y.dtype(), y, d, [=](std::int64_t j) { return x[j] * inverse * gain[j]; });
    }
  }
}

/// With n = (x - mean) / size and g = dy gain: dx = (g - [mean of g] - n mean of g n) / size; a mean is taken off only if x's was.
template <class Scalar>
void Rows<Scalar>::host(const NormBackward& o) {
  const std::int64_t rows = real(o.x.rows), d = real(o.x.cols);
  const bool centred = bool(o.dbias);
  const Scalar* gain = data<Scalar>(o.gain);
  std::vector<Scalar> gains(std::size_t(d), Scalar(0)), biases(std::size_t(centred ? d : 0), Scalar(0)), normals(std::size_t(d), 0);
  Scalar *dgain = gains.data(), *dbias = biases.data(), *n = normals.data();
  for (std::int64_t i = 0; i < rows; ++i) {
    const Scalar *x = data<Scalar>(o.x) + i * d, *dy = data<Scalar>(o.dy) + i * d;
    const Scalar* stats = data<Scalar>(o.stats) + i * (centred ? 2 : 1);
    const Scalar mean = centred ? stats[0] : Scalar(0), inverse = stats[centred ? 1 : 0];
    for (std::int64_t j = 0; j < d; ++j) n[j] = (x[j] - mean) * inverse;
    for (std::int64_t j = 0; j < d; ++j) dgain[j] += dy[j] * n[j];
    for (std::int64_t j = 0; centred && j < d; ++j) dbias[j] += dy[j];
    const Scalar lean = sum<Scalar>(d, [=](std::int64_t j) { return dy[j] * gain[j] * n[j]; }) / Scalar(d);
    const Scalar shift = centred ? sum<Scalar>(d, [=](std::int64_t j) { return dy[j] * gain[j]; }) / Scalar(d) : Scalar(0);
    store(o.dx.dtype(), data<Scalar>(o.dx) + i * d, d,
          [=](std::int64_t j) { return inverse * (dy[j] * gain[j] - shift - n[j] * lean); });
  }
  store_or_add(o.dgain, dgain, o.accumulate);
  if (centred) store_or_add(o.dbias, dbias, o.accumulate);
}

template struct Rows<float>;
template struct Rows<double>;

}  // namespace shardsim::numerics
