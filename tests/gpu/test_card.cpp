// On a real GPU: every op against the host's own arithmetic.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "backends/cuda/backend.h"
#include "core/touch.h"
#include "gpu/agreement.h"

using namespace shardsim;

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
  on_card([](Device& device, Fabric&) {
    gpu_tests::check_all_ops({1, 17, 64, 1000}, {0, 1, 8}, false, [&](const Op& op) { run_on(device, op); });
  });
}
