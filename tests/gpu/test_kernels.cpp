// The card's kernels, carried out on the host, against the host's own arithmetic: every op, in every type, at many offsets.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "gpu/host_executor.h"
#include "numerics/every_op.h"

using namespace shardsim;
using namespace shardsim::numerics_tests;
using gpu_tests::run_kernels;

namespace {

std::vector<Tensor> tensors_of(const Op& op) {
  std::vector<Tensor> all;
  std::visit([&](const auto& o) { touch(o, [&](const Tensor& tensor, bool, bool) { all.push_back(tensor); }); }, op);
  return all;
}

/// The distance between neighbouring numbers around 1.
double step_of(Dtype type) {
  return type == Dtype::bf16 ? 0x1p-8 : type == Dtype::fp16 ? 0x1p-11 : type == Dtype::fp32 ? 0x1p-24 : 0;
}

/// The largest difference, in roundings of the type at the size of the tensor's numbers; whole numbers may differ by one.
void check_agree(const Tensor& card, const Tensor& host) {
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

}  // namespace

TEST_CASE("the kernels of every op compute what the host's arithmetic does, in every type and at every offset") {
  numerics::fix_blocking();
  for (const Dtype type : {Dtype::fp32, Dtype::bf16, Dtype::fp16})
    for (const std::int64_t n : {0, 1, 3, 17, 64})
      for (const int offset : {0, 1, 8, 11}) {
        CAPTURE(name_of(type));
        CAPTURE(n);
        CAPTURE(offset);
        Workbench on_card(offset), on_host(offset);
        const std::vector<Op> card = all_ops(on_card, n, type), host = all_ops(on_host, n, type);
        for (std::size_t i = 0; i < host.size(); ++i) {
          CAPTURE(name_of(host[i]));
          const std::vector<Tensor> of_card = tensors_of(card[i]), of_host = tensors_of(host[i]);
          for (std::size_t t = 0; t < of_host.size(); ++t) {  // what earlier ops left is not this op's
            std::vector<float> before = values(of_host[t]);
            if (of_host[t].dtype() == Dtype::int8)
              for (float& x : before) x = std::nearbyint(x);
            if (before.empty()) continue;
            std::copy(before.begin(), before.end(), numerics::data(of_card[t]));
            std::copy(before.begin(), before.end(), numerics::data(of_host[t]));
          }
          run_kernels(card[i]);
          numerics::run(host[i]);
          for (std::size_t t = 0; t < of_host.size(); ++t) check_agree(of_card[t], of_host[t]);
        }
        CHECK(on_card.margins_untouched());
      }
}
