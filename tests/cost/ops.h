// Ops for the price tests: tensors without memory, of charged sizes only.
#pragma once
#include <deque>

#include "core/op.h"
#include "cost/gpu.h"

namespace shardsim::test {

class Tensors {
 public:
  Tensor operator()(std::int64_t rows, std::int64_t cols, Dtype type = Dtype::bf16) {
    Storage& storage = storages_.emplace_back();
    storage.dtype = type;
    return {&storage, 0, none, Dim(rows, 0), Dim(cols, 0)};
  }
  /// out (m x n) from k.
  Matmul product(std::int64_t m, std::int64_t n, std::int64_t k, Dtype out = Dtype::bf16) {
    return {(*this)(m, k), (*this)(k, n), (*this)(m, n, out), false, false, false};
  }
  Attention attention(std::int64_t sequences, std::int64_t s, std::int64_t heads, std::int64_t h) {
    const std::int64_t tokens = sequences * s;
    return {(*this)(tokens, 3 * heads * h),
            (*this)(tokens, heads * h),
            (*this)(tokens, heads, Dtype::fp32),
            {Dim(heads, 0), Dim(heads, 0), Dim(s, 0)}};
  }
  AttentionBackward backward(const Attention& o) { return {o.qkv, o.out, o.lse, o.out, o.qkv, o.heads}; }
  Adam adam(std::int64_t n, AdamPasses passes, Dtype grad = Dtype::fp32) {
    Tensors& t = *this;
    Adam o{t(1, n, grad), {}, {}, t(1, n, Dtype::fp32), t(1, n, Dtype::fp32), t(1, n, Dtype::fp32), {}, {}, 1, 1};
    o.param = o.master;
    o.rule.passes = passes;
    return o;
  }

 private:
  std::deque<Storage> storages_;
};

/// 100 Tf and 1 TB/s, all of it sustained, and nothing else that costs.
inline Gpu round_gpu() {
  Gpu gpu;
  gpu.fp32_flops = 50e12, gpu.bf16_flops = 100e12, gpu.memory_bandwidth = 1e12;
  return gpu;
}

}  // namespace shardsim::test
