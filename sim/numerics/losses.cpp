// Host arithmetic of losses: the mean over all real elements or tokens is added to the loss, its gradient is written.
#include <vector>

#include "numerics/arithmetic.h"
#include "numerics/elementary.h"
#include "numerics/softmax.h"

namespace shardsim::numerics {
namespace {

template <class Scalar>
Scalar scale_of(const Tensor& scaler) {
  return scaler ? *data<Scalar>(scaler) : Scalar(1);
}

}  // namespace

template <class Scalar>
void Losses<Scalar>::host(const MseLoss& o) {
  const std::int64_t n = size(o.pred);
  if (n == 0) return;
  const Scalar *pred = data<Scalar>(o.pred), *target = data<Scalar>(o.target);
  const Scalar scale = Scalar(2.0 / double(n)) * scale_of<Scalar>(o.scaler);
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const Scalar difference = pred[i] - target[i];
    sum += double(difference) * double(difference);
  }
  *data<Scalar>(o.loss) += Scalar(sum / double(n) / o.micro_batches);
  store<Scalar>(o.dpred, [=](std::int64_t i) { return scale * (pred[i] - target[i]); });
}

template <class Scalar>
void Losses<Scalar>::host(const CrossEntropy& o) {
  const std::int64_t tokens = real(o.logits.rows), n = real(o.logits.cols);
  if (tokens == 0) return;
  const Scalar scale = Scalar(1.0 / double(tokens)) * scale_of<Scalar>(o.scaler);
  std::vector<Scalar> gradient(static_cast<std::size_t>(n));
  double sum_of_losses = 0;
  for (std::int64_t i = 0; i < tokens; ++i) {
    const Scalar* x = data<Scalar>(o.logits) + i * n;
    const std::int64_t target = whole_number(data<Scalar>(o.targets)[i], n);
    Scalar* e = gradient.data();
    const Scalar top = largest<Scalar>(n, [=](std::int64_t j) { return x[j]; });
    for (std::int64_t j = 0; j < n; ++j) e[j] = exp(x[j] - top);
    const Scalar total = sum<Scalar>(n, [=](std::int64_t j) { return e[j]; });
    sum_of_losses += double(std::log(total)) - double(x[target] - top);
    const Scalar share = 1 / total;
    for (std::int64_t j = 0; j < n; ++j) e[j] *= share;
    e[target] -= 1;
    store(o.dlogits.dtype(), data<Scalar>(o.dlogits) + i * n, n, [=](std::int64_t j) { return scale * e[j]; });
  }
  *data<Scalar>(o.loss) += Scalar(sum_of_losses / double(tokens) / o.micro_batches);
}

template <class Scalar>
void Losses<Scalar>::host(const NllLoss& o) {
  const std::int64_t tokens = real(o.logp.rows), n = real(o.logp.cols);
  if (tokens == 0) return;
  const Scalar scale = Scalar(1.0 / double(tokens)) * scale_of<Scalar>(o.scaler);
  double sum = 0;
  for (std::int64_t i = 0; i < tokens; ++i) {
    const std::int64_t target = whole_number(data<Scalar>(o.targets)[i], n);
    sum -= double(data<Scalar>(o.logp)[i * n + target]);
    store(o.dlogp.dtype(), data<Scalar>(o.dlogp) + i * n, n, [=](std::int64_t j) { return j == target ? -scale : Scalar(0); });
  }
  *data<Scalar>(o.loss) += Scalar(sum / double(tokens) / o.micro_batches);
}

template struct Losses<float>;
template struct Losses<double>;

}  // namespace shardsim::numerics
