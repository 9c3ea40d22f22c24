// When two arithmetics agree: the card's, or its kernels on the host, with the host's own.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <vector>

#include "core/touch.h"
#include "numerics/buffer.h"
#include "numerics/every_op.h"

namespace shardsim::gpu_tests {

using numerics_tests::values;

inline std::vector<Tensor> tensors_of(const Op& op) {
  std::vector<Tensor> all;
  std::visit([&](const auto& o) { touch(o, [&](const Tensor& tensor, bool, bool) { all.push_back(tensor); }); }, op);
  return all;
}

/// The distance between neighbouring numbers around 1.
inline double step_of(Dtype type) {
  return type == Dtype::bf16 ? 0x1p-8 : type == Dtype::fp16 ? 0x1p-11 : type == Dtype::fp32 ? 0x1p-24 : 0;
}

/// The largest difference, in roundings of the type at the size of the tensor's numbers; whole numbers may differ by one.
inline void check_agree(const Tensor& card, const Tensor& host) {
  const std::vector<float> actual = values(card), expected = values(host);
  REQUIRE(actual.size() == expected.size());
  double largest = 0;
  for (float x : expected)
    if (std::isfinite(x)) largest = std::max(largest, double(std::abs(x)));
  for (std::size_t i = 0; i < actual.size(); ++i) {
    CAPTURE(i);
    if (actual[i] == expected[i] || (std::isnan(actual[i]) && std::isnan(expected[i]))) continue;
    const double step = step_of(host.dtype());
    const double allowed = step == 0 ? 1 : 4 * step * std::abs(expected[i]) + (2 * step + 64 * 0x1p-24) * largest;
    CHECK(std::abs(double(actual[i]) - double(expected[i])) <= allowed);
  }
}
inline void check_agree(const Op& card, const Op& host) {
  const std::vector<Tensor> of_card = tensors_of(card), of_host = tensors_of(host);
  for (std::size_t t = 0; t < of_host.size(); ++t) check_agree(of_card[t], of_host[t]);
}

/// Gives both ops' tensors the numbers of the host's: what earlier ops left is not this op's. Whole numbers are whole.
inline void begin_alike(const Op& card, const Op& host) {
  const std::vector<Tensor> of_card = tensors_of(card), of_host = tensors_of(host);
  for (std::size_t t = 0; t < of_host.size(); ++t) {
    std::vector<float> before = values(of_host[t]);
    if (of_host[t].dtype() == Dtype::int8)
      for (float& x : before) x = std::nearbyint(x);
    if (before.empty()) continue;
    std::copy(before.begin(), before.end(), numerics::data(of_card[t]));
    std::copy(before.begin(), before.end(), numerics::data(of_host[t]));
  }
}

/// Every op of these sizes and offsets, in every type: carried out by `run`, it leaves what the host's arithmetic does. `in_place`:
/// and touches nothing beside its tensors.
inline void check_all_ops(std::initializer_list<std::int64_t> sizes, std::initializer_list<int> offsets, bool in_place,
                          const std::function<void(const Op&)>& run) {
  numerics::fix_blocking();
  for (const Dtype type : {Dtype::fp32, Dtype::bf16, Dtype::fp16})
    for (const std::int64_t n : sizes)
      for (const int offset : offsets) {
        CAPTURE(name_of(type));
        CAPTURE(n);
        CAPTURE(offset);
        numerics_tests::Workbench on_card(offset), on_host(offset);
        const std::vector<Op> card = numerics_tests::all_ops(on_card, n, type), host = numerics_tests::all_ops(on_host, n, type);
        for (std::size_t i = 0; i < host.size(); ++i) {
          CAPTURE(name_of(host[i]));
          begin_alike(card[i], host[i]);
          run(card[i]);
          numerics::run(host[i]);
          check_agree(card[i], host[i]);
        }
        if (in_place) CHECK(on_card.margins_untouched());
      }
}

}  // namespace shardsim::gpu_tests
