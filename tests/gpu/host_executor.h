// HostExecutor: carries out the card's kernels as plain loops on the host, on numbers at their types' own width.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "backends/cuda/attention.h"
#include "backends/cuda/elementwise.h"
#include "backends/cuda/heads.h"
#include "backends/cuda/losses.h"
#include "backends/cuda/norms.h"
#include "backends/cuda/products.h"
#include "backends/cuda/quantize.h"
#include "backends/cuda/ring.h"
#include "backends/cuda/rows.h"
#include "backends/cuda/softmaxes.h"
#include "backends/cuda/updates.h"
#include "core/touch.h"

namespace shardsim::gpu_tests {

/// Memory comes in lines, aligned as the card's is for whole words.
struct alignas(16) Line {
  char bytes[16];
};

class HostExecutor {
 public:
  /// A team of one: what it sums is the sum.
  struct Team {
    std::int64_t lane() const { return 0; }
    std::int64_t size() const { return 1; }
    template <class T>
    T sum(T x) const {
      return x;
    }
    float max(float x) const { return x; }
    void sync() const {}
  };

  template <class F>
  void each(std::int64_t n, F f) {
    for (std::int64_t i = n - 1; i >= 0; --i) f(i);  // any order must do
  }
  template <class F>
  void rows(std::int64_t n, F f) {
    for (std::int64_t row = n - 1; row >= 0; --row) f(Team{}, row);
  }
  void copy(const cuda::Numbers& from, const cuda::Numbers& to, std::int64_t n) {
    if (n > 0) std::memmove(to.at, from.at, std::size_t(n * bytes_of(to.type)));
  }
  void product(const cuda::Product& o) {
    for (std::int64_t one = 0; one < o.batch; ++one) {
      const cuda::Numbers a = o.a.from(one * o.a_step), b = o.b.from(one * o.b_step), out = o.out.from(one * o.out_step);
      for (std::int64_t i = 0; i < o.m; ++i)
        for (std::int64_t j = 0; j < o.n; ++j) {
          double sum = 0;
          for (std::int64_t l = 0; l < o.k; ++l)
            sum += double(a[o.ta ? l * o.m + i : i * o.k + l]) * double(b[o.tb ? j * o.k + l : l * o.n + j]);
          float x = o.scale * float(sum);
          if (o.bias) x += o.bias[j];
          if (o.accumulate) x += out[i * o.n + j];
          out.put(i * o.n + j, x);
        }
    }
  }
  cuda::Numbers scratch(std::int64_t n, Dtype type) {
    scratch_.emplace_back(std::size_t(n * bytes_of(type) / std::int64_t(sizeof(Line)) + 1));
    std::memset(scratch_.back().data(), 0xff, scratch_.back().size() * sizeof(Line));  // NaN in every type
    return {scratch_.back().data(), type, n};
  }
  std::int64_t parallel() const { return 64; }

 private:
  std::deque<std::vector<Line>> scratch_;
};

/// Copies of tensors of floats, as the host's arithmetic has them, at their types' own width, as the card has them.
class NativeCopies {
 public:
  Tensor of(Tensor tensor) {
    if (!tensor) return tensor;
    if (!copies_.count(tensor.in)) take(*tensor.in);
    tensor.in = &copies_.at(tensor.in).storage;
    return tensor;
  }
  /// What was written comes back. What was not stays: a whole number has no NaN.
  void write_back() const {
    for (const auto& [to, copy] : copies_) {
      const char* after = static_cast<const char*>(copy.storage.at);
      const std::size_t width = std::size_t(bytes_of(to->dtype));
      for (std::size_t i = 0; i < std::size_t(Real::of(to->count)); ++i)
        if (std::memcmp(copy.before.data() + i * width, after + i * width, width) != 0)
          static_cast<float*>(to->at)[i] = cuda::loaded(after, to->dtype, std::int64_t(i));
    }
  }

 private:
  struct Copy {
    Storage storage;
    std::vector<Line> lines;
    std::vector<char> before;
  };
  void take(Storage& from) {
    Copy& copy = copies_[&from];
    copy.storage = from;
    const std::int64_t n = Real::of(from.count), bytes = n * bytes_of(from.dtype);
    copy.lines.resize(std::size_t(bytes / std::int64_t(sizeof(Line)) + 1));
    copy.storage.at = from.at ? copy.lines.data() : nullptr;
    for (std::int64_t i = 0; i < n; ++i) cuda::store(copy.lines.data(), from.dtype, i, static_cast<const float*>(from.at)[i]);
    const char* at = reinterpret_cast<const char*>(copy.lines.data());
    copy.before.assign(at, at + bytes);
  }
  std::map<Storage*, Copy> copies_;
};

/// An op, carried out by the card's kernels.
inline void run_kernels(Op op) {
  NativeCopies copies;
  HostExecutor on;
  std::visit(
      [&](auto& o) {
        touch(o, [&](const Tensor& tensor, bool, bool) { const_cast<Tensor&>(tensor) = copies.of(tensor); });
        cuda::perform(on, o);
      },
      op);
  copies.write_back();
}

/// A collective of all members, carried out by the card's kernels.
inline void run_kernels(std::vector<Collective> members) {
  NativeCopies copies;
  HostExecutor on;
  for (Collective& member : members) member.from = copies.of(member.from), member.to = copies.of(member.to);
  cuda::move_in_ring_order(on, std::span<const Collective>(members), true);
  copies.write_back();
}

}  // namespace shardsim::gpu_tests
