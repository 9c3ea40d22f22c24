// Prices: each op's bytes and floating-point operations, from its charged sizes.
#include "cost/price.h"

#include <cstdio>

namespace shardsim::cost {
namespace {

struct Work {
  double flops = 0, bytes = 0;  // bytes that the memory moves; of a product: those of its output
  Dtype type = Dtype::fp32;
};

double bytes(const Tensor& tensor) { return double(tensor.bytes()); }

Work work(const Matmul& o) {
  const double inner = double((o.ta ? o.a.rows : o.a.cols).charged());
  return {2.0 * double(o.out.count().charged()) * inner, bytes(o.out), o.a.dtype()};
}
Work work(const AddBias& o) { return {0, 2 * bytes(o.x)}; }
Work work(const SumRows& o) { return {0, bytes(o.x) + bytes(o.out)}; }
Work work(const Tanh& o) { return {0, bytes(o.x) + bytes(o.y)}; }
Work work(const TanhBackward& o) { return {0, bytes(o.y) + 2 * bytes(o.dy)}; }
Work work(const MseLoss& o) { return {0, bytes(o.pred) + bytes(o.target) + bytes(o.dpred)}; }
Work work(const Copy& o) { return {0, bytes(o.from) + bytes(o.to)}; }
Work work(const Add& o) { return {0, bytes(o.x) + 2 * bytes(o.y)}; }
Work work(const Fill& o) { return {0, bytes(o.x)}; }
Work work(const SumSquares& o) { return {0, bytes(o.x)}; }
Work work(const ClipFactor& o) { return {0, bytes(o.squares) + bytes(o.factor)}; }
Work work(const Adam& o) {
  const bool has_master = o.master.in != o.param.in;
  return {0, bytes(o.grad) + 2 * (bytes(o.master) + bytes(o.m) + bytes(o.v)) + (has_master ? bytes(o.param) : 0)};
}

Work work(const Op& op) {
  return std::visit([](const auto& o) { return work(o); }, op);
}

double peak(const Gpu& gpu, Dtype type) { return type == Dtype::fp32 ? gpu.fp32_flops : gpu.bf16_flops; }  // fp16 runs as bf16 does

}  // namespace

double seconds(const Gpu& gpu, const Op& op) {
  const Work w = work(op);
  if (w.bytes == 0) return 0;
  double time = gpu.kernel_seconds + w.bytes / (gpu.memory_bandwidth * gpu.memory_efficiency);
  if (w.flops > 0) time += w.flops / (peak(gpu, w.type) * gpu.gemm_efficiency);
  return time;
}

double flops(const Op& op) { return work(op).flops; }

std::string in_words(const Gpu& gpu, const Op& op) {
  const Work w = work(op);
  char text[256];
  int n = std::snprintf(text, sizeof text, "%s: %.3g s = kernel %.3g s + %.6g B / (%.4g B/s x %.3g)", name_of(op), seconds(gpu, op),
                        gpu.kernel_seconds, w.bytes, gpu.memory_bandwidth, gpu.memory_efficiency);
  if (w.flops > 0)
    std::snprintf(text + n, sizeof text - std::size_t(n), " + %.6g flop / (%.4g flop/s x %.3g)", w.flops, peak(gpu, w.type),
                  gpu.gemm_efficiency);
  return text;
}

}  // namespace shardsim::cost
