// Tensors without a device: storage on the host that begins anywhere, for the tests of the arithmetic.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <vector>

#include "core/tensor.h"
#include "numerics/host.h"
#include "numerics/real.h"

namespace shardsim::numerics_tests {

inline Dim dim(std::int64_t n) { return {n, n}; }

/// Makes tensors that begin `offset` numbers after a 64-byte boundary, with deterministic values in (-1, 1).
template <class Scalar>
class WorkbenchOf {
 public:
  explicit WorkbenchOf(int offset = 0) : offset_(offset) {}
  ~WorkbenchOf() {
    for (Storage& storage : storages_) numerics::release(storage.at);
  }
  WorkbenchOf(const WorkbenchOf&) = delete;
  WorkbenchOf& operator=(const WorkbenchOf&) = delete;

  Tensor matrix(std::int64_t rows, std::int64_t cols, Dtype type = Dtype::fp32) {
    Storage& storage = storages_.emplace_back();
    storage.count = dim(offset_ + rows * cols + 16);
    storage.dtype = type;
    storage.at = numerics::allocate(dim(sizeof(Scalar) / sizeof(float)) * storage.count);
    std::fill_n(static_cast<Scalar*>(storage.at), offset_ + rows * cols + 16, std::numeric_limits<Scalar>::quiet_NaN());
    const Tensor tensor{&storage, 0, dim(offset_), dim(rows), dim(cols)};
    for (std::int64_t i = 0; i < rows * cols; ++i) numerics::data<Scalar>(tensor)[i] = numerics::rounded(type, next_value());
    made_.push_back(tensor);
    return tensor;
  }
  Tensor vector(std::int64_t count, Dtype type = Dtype::fp32) { return matrix(1, count, type); }
  Tensor vector(const std::vector<Scalar>& values, Dtype type = Dtype::fp32) {
    const Tensor tensor = vector(std::int64_t(values.size()), type);
    for (std::size_t i = 0; i < values.size(); ++i) numerics::data<Scalar>(tensor)[i] = values[i];
    return tensor;
  }
  /// n whole numbers in 0 .. below - 1, as token ids.
  Tensor ids(std::int64_t n, std::int64_t below) {
    const Tensor tensor = vector(n, Dtype::int64);
    for (std::int64_t i = 0; i < n; ++i)
      numerics::data<Scalar>(tensor)[i] = Scalar(std::int64_t((next_value() + 1) / 2 * float(below)) % below);
    return tensor;
  }
  /// Positive values, as second moments are.
  Tensor squares(std::int64_t count) {
    const Tensor tensor = vector(count);
    for (std::int64_t i = 0; i < count; ++i) numerics::data<Scalar>(tensor)[i] *= numerics::data<Scalar>(tensor)[i];
    return tensor;
  }
  /// Every number of every tensor made here, as bits.
  std::vector<std::uint32_t> bits() const {
    std::vector<std::uint32_t> all;
    for (const Tensor& tensor : made_)
      for (float x : values(tensor)) all.push_back(std::bit_cast<std::uint32_t>(x));
    return all;
  }
  /// True when the floats before and behind every tensor are the NaN that the storage began with.
  bool margins_untouched() const {
    for (const Tensor& tensor : made_) {
      const Scalar* all = static_cast<const Scalar*>(tensor.in->at);
      const std::int64_t count = std::int64_t(values(tensor).size());
      for (int i = 0; i < offset_; ++i)
        if (!std::isnan(all[i])) return false;
      for (int i = 0; i < 16; ++i)
        if (!std::isnan(all[offset_ + count + i])) return false;
    }
    return true;
  }
  static std::vector<Scalar> values(const Tensor& tensor) {
    const Scalar* at = numerics::data<Scalar>(tensor);
    return {at, at + Real::of(tensor.count())};
  }

 private:
  float next_value() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return float(std::int32_t(state_ >> 32)) / 2147483648.f;
  }
  int offset_;
  std::uint64_t state_ = 1;
  std::deque<Storage> storages_;
  std::vector<Tensor> made_;
};

using Workbench = WorkbenchOf<float>;
inline std::vector<float> values(const Tensor& tensor) { return Workbench::values(tensor); }

}  // namespace shardsim::numerics_tests
