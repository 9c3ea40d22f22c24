// Tensors without a device: storage on the host that begins anywhere, for the tests of the arithmetic.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <deque>
#include <vector>

#include "core/tensor.h"
#include "numerics/host.h"

namespace shardsim::numerics_tests {

inline Dim dim(std::int64_t n) { return {n, n}; }

/// Makes tensors that begin `offset` floats after a 64-byte boundary, with deterministic values in (-1, 1).
class Workbench {
 public:
  explicit Workbench(int offset = 0) : offset_(offset) {}
  ~Workbench() {
    for (Storage& storage : storages_) numerics::release(storage.at);
  }
  Workbench(const Workbench&) = delete;
  Workbench& operator=(const Workbench&) = delete;

  Tensor matrix(std::int64_t rows, std::int64_t cols, Dtype type = Dtype::fp32) {
    Storage& storage = storages_.emplace_back();
    storage.count = dim(offset_ + rows * cols + 16);
    storage.dtype = type;
    storage.at = numerics::allocate(storage.count);
    const Tensor tensor{&storage, 0, dim(offset_), dim(rows), dim(cols)};
    for (std::int64_t i = 0; i < rows * cols; ++i) numerics::data(tensor)[i] = numerics::rounded(type, next_value());
    made_.push_back(tensor);
    return tensor;
  }
  Tensor vector(std::int64_t count, Dtype type = Dtype::fp32) { return matrix(1, count, type); }
  Tensor vector(const std::vector<float>& values, Dtype type = Dtype::fp32) {
    const Tensor tensor = vector(std::int64_t(values.size()), type);
    for (std::size_t i = 0; i < values.size(); ++i) numerics::data(tensor)[i] = values[i];
    return tensor;
  }
  /// Positive values, as second moments are.
  Tensor squares(std::int64_t count) {
    const Tensor tensor = vector(count);
    for (std::int64_t i = 0; i < count; ++i) numerics::data(tensor)[i] *= numerics::data(tensor)[i];
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
      const float* all = static_cast<const float*>(tensor.in->at);
      const std::int64_t count = std::int64_t(values(tensor).size());
      for (int i = 0; i < offset_; ++i)
        if (!std::isnan(all[i])) return false;
      for (int i = 0; i < 16; ++i)
        if (!std::isnan(all[offset_ + count + i])) return false;
    }
    return true;
  }
  static std::vector<float> values(const Tensor& tensor) {
    std::vector<float> list;
    numerics::copy_out(tensor, list);
    return list;
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

inline std::vector<float> values(const Tensor& tensor) { return Workbench::values(tensor); }

}  // namespace shardsim::numerics_tests
