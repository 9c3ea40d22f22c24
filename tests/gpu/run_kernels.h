// run_kernels: an op or a collective, carried out by the card's kernels on the host.
#pragma once
#include <map>
#include <span>

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
#include "gpu/host_executor.h"

namespace shardsim::gpu_tests {

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

/// An op, carried out by the card's kernels; by teams of so many threads.
inline void run_kernels(Op op, int threads = 1) {
  NativeCopies copies;
  HostExecutor on(threads);
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
