// Running an op on the host, and the storage its numbers live in.
#include "numerics/host.h"

#include <Eigen/Core>
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <new>

#include "numerics/arithmetic.h"

namespace shardsim::numerics {

void fix_blocking() {
  Eigen::setNbThreads(1);
  Eigen::setCpuCacheSizes(32 << 10, 512 << 10, 4 << 20);
}

template <class Scalar>
void run_in(const Op& op) {
  std::visit([](const auto& o) { Arithmetic<Scalar>::host(o); }, op);
}
template void run_in<float>(const Op&);
template void run_in<double>(const Op&);

void run(const Op& op) { run_in<float>(op); }

template <class Scalar>
Scalar* data(const Tensor& tensor) {
  return static_cast<Scalar*>(tensor.in->at) + real(tensor.offset);
}
template float* data<float>(const Tensor&);
template double* data<double>(const Tensor&);

void* allocate(Dim count) {
  const std::size_t n = std::size_t(real(count));
  if (n == 0) return nullptr;
  void* at = std::aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64);
  if (!at) throw std::bad_alloc();
  std::fill_n(static_cast<float*>(at), n, std::numeric_limits<float>::quiet_NaN());
  return at;
}

void release(void* at) { std::free(at); }

std::span<const float> source(const Tensor& to, HostView from) {
  const std::int64_t begin = real(from.begin);
  const std::int64_t count = std::min({real(from.count), size(to), std::int64_t(from.data->size()) - begin});
  if (count <= 0) return {};
  return std::span(*from.data).subspan(std::size_t(begin), std::size_t(count));
}

std::vector<float> staged(const Tensor& to, HostView from) {
  const std::span<const float> all = source(to, from);
  std::vector<float> values(all.begin(), all.end());
  with_rounding(to.dtype(), [&values](auto round) {
    for (float& value : values) value = round(value);
  });
  return values;
}

void copy_in(const Tensor& to, const std::vector<float>& staged) {
  if (size(to) > 0) std::fill(std::copy(staged.begin(), staged.end(), data(to)), data(to) + size(to), 0.f);
}

void copy_out(const Tensor& from, std::vector<float>& to) {
  to.resize(std::size_t(size(from)));
  if (!to.empty()) std::copy_n(data(from), to.size(), to.begin());
}

}  // namespace shardsim::numerics
