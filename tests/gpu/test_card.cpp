// On a real GPU: every op against the host's own arithmetic, and a transformer's own sizes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "backends/cuda/backend.h"
#include "core/touch.h"
#include "gpu/agreement.h"
#include "numerics/every_op.h"

using namespace shardsim;
using namespace shardsim::numerics_tests;
using gpu_tests::check_agree;

namespace {

bool has_gpu() {
  const std::string refusal = cuda_refusal({}, 1);
  if (!refusal.empty()) MESSAGE("skipped: ", refusal);
  return refusal.empty();
}

void on_card(const Backend::Body& body) { CudaBackend(CudaSettings{}).run(1, body); }

/// The op on copies of its tensors on the card, which are then written back.
void run_on(Device& device, Op op) {
  struct Copy {
    Tensor there;
    std::vector<float> values;
  };
  std::map<Storage*, Copy> copies;
  const auto each = [](Op& of, auto f) {
    std::visit([&](auto& o) { touch(o, [&](const Tensor& t, bool, bool) { f(const_cast<Tensor&>(t)); }); }, of);
  };
  each(op, [&](Tensor& tensor) {
    Storage* from = tensor.in;
    if (!copies.count(from)) {
      Copy& copy = copies[from];
      const float* at = static_cast<const float*>(from->at);
      copy.values.assign(at, at + Real::of(from->count));
      copy.there = device.alloc(Lane::compute, Band::workspace, one, from->count, from->dtype);
      device.upload(Lane::compute, copy.there, {&copy.values, none, from->count});
    }
    tensor.in = copies[from].there.in, tensor.life = copies[from].there.life;
  });
  device.launch(Lane::compute, op);
  for (auto& [to, copy] : copies) device.download(Lane::compute, copy.there, copy.values);
  device.synchronize();
  for (auto& [to, copy] : copies) {
    if (!copy.values.empty()) std::copy(copy.values.begin(), copy.values.end(), static_cast<float*>(to->at));
    device.free(Lane::compute, copy.there);
  }
}

}  // namespace

TEST_CASE("every op on the card computes what the host's arithmetic does, in every type and at every offset") {
  if (!has_gpu()) return;
  numerics::fix_blocking();
  on_card([](Device& device, Fabric&) {
    for (const Dtype type : {Dtype::fp32, Dtype::bf16, Dtype::fp16})
      for (const std::int64_t n : {1, 17, 64, 1000})
        for (const int offset : {0, 1, 8}) {
          CAPTURE(name_of(type));
          CAPTURE(n);
          CAPTURE(offset);
          Workbench card_bench(offset), host_bench(offset);
          const std::vector<Op> card = all_ops(card_bench, n, type), host = all_ops(host_bench, n, type);
          for (std::size_t i = 0; i < host.size(); ++i) {
            CAPTURE(name_of(host[i]));
            gpu_tests::begin_alike(card[i], host[i]);
            run_on(device, card[i]);
            numerics::run(host[i]);
            check_agree(card[i], host[i]);
          }
        }
  });
}
