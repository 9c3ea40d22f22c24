// Host arithmetic: one overload per op. Matrix products are Eigen's; everything whose bits must not depend on where a slice begins
// is a plain loop.
#include "numerics/host.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <new>

#include "numerics/real.h"

namespace shardsim::numerics {
namespace {

using Matrix = Eigen::Map<Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

std::int64_t real(Dim dim) { return Real::of(dim); }
std::int64_t size(const Tensor& tensor) { return real(tensor.count()); }
Matrix matrix(const Tensor& tensor) { return {data(tensor), real(tensor.rows), real(tensor.cols)}; }

void round_all(Dtype type, float* x, std::int64_t n) {
  if (type == Dtype::fp32) return;
  with_rounding(type, [&](auto round) {
    for (std::int64_t i = 0; i < n; ++i) x[i] = round(x[i]);
  });
}

void round_to_type(const Tensor& tensor) { round_all(tensor.dtype(), data(tensor), size(tensor)); }

template <class A, class B>
void multiply(const A& a, const B& b, const Tensor& out, bool accumulate) {
  if (accumulate) {  // compute, then add: the product's own order of sums does not depend on what is there
    Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> product = a * b;
    round_all(out.dtype(), product.data(), product.size());  // what is added is what would have been stored
    matrix(out) += product;
  } else {
    matrix(out).noalias() = a * b;
  }
}

void host(const Matmul& o) {
  if (size(o.out) == 0) return;
  const Matrix a = matrix(o.a), b = matrix(o.b);
  if (o.ta && o.tb) multiply(a.transpose(), b.transpose(), o.out, o.accumulate);
  else if (o.ta) multiply(a.transpose(), b, o.out, o.accumulate);
  else if (o.tb) multiply(a, b.transpose(), o.out, o.accumulate);
  else multiply(a, b, o.out, o.accumulate);
  round_to_type(o.out);
}

void host(const AddBias& o) {
  const std::int64_t rows = real(o.x.rows), cols = real(o.x.cols);
  const float* bias = data(o.bias);
  for (std::int64_t i = 0; i < rows; ++i) {
    float* x = data(o.x) + i * cols;
    for (std::int64_t j = 0; j < cols; ++j) x[j] += bias[j];
  }
  round_to_type(o.x);
}

void host(const SumRows& o) {
  const std::int64_t rows = real(o.x.rows), cols = real(o.x.cols);
  float* out = data(o.out);
  std::vector<float> sum(cols, 0.f);
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* x = data(o.x) + i * cols;
    for (std::int64_t j = 0; j < cols; ++j) sum[j] += x[j];
  }
  for (std::int64_t j = 0; j < cols; ++j) out[j] = o.accumulate ? out[j] + rounded(o.out.dtype(), sum[j]) : sum[j];
  round_to_type(o.out);
}

void host(const Tanh& o) {
  const float* x = data(o.x);
  float* y = data(o.y);
  for (std::int64_t i = 0, n = size(o.x); i < n; ++i) y[i] = std::tanh(x[i]);
  round_to_type(o.y);
}

void host(const TanhBackward& o) {
  const float* y = data(o.y);
  float* dy = data(o.dy);
  for (std::int64_t i = 0, n = size(o.y); i < n; ++i) dy[i] *= 1.f - y[i] * y[i];
  round_to_type(o.dy);
}

void host(const MseLoss& o) {
  const std::int64_t n = size(o.pred);
  if (n == 0) return;
  const float *pred = data(o.pred), *target = data(o.target);
  float* dpred = data(o.dpred);
  const float scale = float(2.0 / double(n)) * (o.scaler ? *data(o.scaler) : 1.f);
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const float difference = pred[i] - target[i];
    sum += double(difference) * double(difference);
    dpred[i] = scale * difference;
  }
  *data(o.loss) += float(sum / double(n) / o.micro_batches);
  round_to_type(o.dpred);
}

void host(const Copy& o) {
  const float* from = data(o.from);
  float* to = data(o.to);
  const std::int64_t n = size(o.from);
  with_rounding(o.to.dtype(), [&](auto round) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = round(from[i]);
  });
}

void host(const Add& o) {
  const float* x = data(o.x);
  float* y = data(o.y);
  for (std::int64_t i = 0, n = size(o.x); i < n; ++i) y[i] += x[i];
  round_to_type(o.y);
}

void host(const Fill& o) {
  float* x = data(o.x);
  std::fill_n(x, size(o.x), rounded(o.x.dtype(), o.value));
}

void host(const SumSquares& o) {
  const float* x = data(o.x);
  float sum = 0;
  for (std::int64_t i = 0, n = size(o.x); i < n; ++i) sum += x[i] * x[i];
  if (size(o.out)) *data(o.out) += sum;
}

void host(const ClipFactor& o) {
  const std::int64_t n = size(o.squares);
  if (n == 0) return;
  const float* squares = data(o.squares);
  float sum = 0;
  for (std::int64_t k = 1; k <= n; ++k) sum += squares[k % n];  // from member 1 to member 0, as the ring sums chunk 0
  float* scaler = o.scaler ? data(o.scaler) : nullptr;          // scale, good steps, updates
  const float scale = scaler ? scaler[0] : 1.f;
  const float norm = o.unscale / scale * std::sqrt(sum);
  const bool skips = o.rule.dynamic && !std::isfinite(sum);
  data(o.factor)[0] = (o.limit > 0 && norm > o.limit ? o.limit / norm : 1.f) / scale;
  data(o.factor)[1] = skips ? 1.f : 0.f;
  if (!scaler) return;
  if (skips) {
    scaler[0] = scale * o.rule.backoff;
    scaler[1] = 0.f;
    return;
  }
  scaler[1] += 1.f, scaler[2] += 1.f;
  if (o.rule.dynamic && scaler[1] == float(o.rule.growth_interval)) scaler[0] = scale * o.rule.growth, scaler[1] = 0.f;
}

void host(const Adam& o) {
  const std::int64_t n = size(o.grad);
  if (n == 0) return;
  const float* factor = o.factor ? data(o.factor) : nullptr;  // multiplier, skips
  if (factor && factor[1] != 0.f) return;
  const AdamRule& rule = o.rule;
  const float step_size = rule.lr, decay = rule.weight_decay;
  const double t = o.scaler ? double(data(o.scaler)[2]) : o.t;
  const float correction1 = float(1.0 - std::pow(double(rule.beta1), t));
  const float correction2 = float(1.0 - std::pow(double(rule.beta2), t));
  const float scale = factor ? o.unscale * factor[0] : o.unscale;
  const bool coupled = decay != 0.f && !rule.decoupled;
  const float shrink = rule.decoupled ? 1.f - step_size * decay : 1.f;
  const float* grad = data(o.grad);
  float *master = data(o.master), *m = data(o.m), *v = data(o.v), *param = data(o.param);
  for (std::int64_t i = 0; i < n; ++i) {
    float g = grad[i] * scale;
    if (coupled) g += decay * master[i];
    m[i] = rule.beta1 * m[i] + (1.f - rule.beta1) * g;
    v[i] = rule.beta2 * v[i] + (1.f - rule.beta2) * g * g;
    master[i] = shrink * master[i] - step_size * (m[i] / correction1) / (std::sqrt(v[i] / correction2) + rule.eps);
  }
  if (param == master) return;
  with_rounding(o.param.dtype(), [&](auto round) {
    for (std::int64_t i = 0; i < n; ++i) param[i] = round(master[i]);
  });
}

}  // namespace

void fix_blocking() {
  Eigen::setNbThreads(1);
  Eigen::setCpuCacheSizes(32 << 10, 512 << 10, 4 << 20);
}

void run(const Op& op) {
  std::visit([](const auto& o) { host(o); }, op);
}

float* data(const Tensor& tensor) { return static_cast<float*>(tensor.in->at) + real(tensor.offset); }

void* allocate(Dim count) {
  const std::size_t n = std::size_t(real(count));
  if (n == 0) return nullptr;
  void* at = std::aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64);
  if (!at) throw std::bad_alloc();
  std::fill_n(static_cast<float*>(at), n, std::numeric_limits<float>::quiet_NaN());
  return at;
}

void release(void* at) { std::free(at); }

std::vector<float> staged(const Tensor& to, HostView from) {
  std::vector<float> values(std::size_t(size(to)), 0.f);
  const std::int64_t begin = real(from.begin);
  const std::int64_t count = std::min({real(from.count), std::int64_t(values.size()), std::int64_t(from.data->size()) - begin});
  for (std::int64_t i = 0; i < count; ++i) values[i] = rounded(to.dtype(), (*from.data)[begin + i]);
  return values;
}

void copy_in(const Tensor& to, const std::vector<float>& staged) {
  if (!staged.empty()) std::copy(staged.begin(), staged.end(), data(to));
}

void copy_out(const Tensor& from, std::vector<float>& to) {
  to.resize(std::size_t(size(from)));
  if (!to.empty()) std::copy_n(data(from), to.size(), to.begin());
}

}  // namespace shardsim::numerics
