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

// A Work names what moves: reads and writes of each tensor, as often as the kernel touches it.
// clang-format off
double all(const auto&... tensors) { return (0.0 + ... + (tensors ? bytes(tensors) : 0.0)); }

Work work(const Matmul& o) {
  const double inner = double((o.ta ? o.a.rows : o.a.cols).charged());
  return {2.0 * double(o.out.count().charged()) * inner, bytes(o.out), o.a.dtype()};
}
Work work(const BatchedMatmul& o) {
  const double inner = o.ta ? double(o.a.rows.charged()) / double(o.batch.charged()) : double(o.a.cols.charged());
  return {2.0 * double(o.out.count().charged()) * inner, bytes(o.out), o.a.dtype()};
}
Work work(const AddBias& o) { return {0, 2 * bytes(o.x)}; }
Work work(const SumRows& o) { return {0, all(o.x, o.out)}; }
Work work(const Embed& o) { return {0, all(o.ids) + 2 * bytes(o.out)}; }
Work work(const EmbedBackward& o) { return {0, all(o.ids) + 2 * bytes(o.dout) + (o.accumulate ? 0 : bytes(o.dtable))}; }
Work work(const Norm& o) { return {0, all(o.x, o.y, o.stats)}; }
Work work(const NormBackward& o) { return {0, all(o.x, o.dy, o.stats, o.dx)}; }
Work work(const Rotate& o) {
  const double heads = double(o.heads.count.charged()), kv = double(o.heads.kv.charged());
  return {0, 2 * bytes(o.qkv) * (heads + kv) / (heads + 2 * kv)};
}
/// Two products over the causal half of the square; the backward pass has five.
double attention_flops(const Tensor& out, const Heads& heads) { return 2.0 * double(out.count().charged()) * double(heads.sequence.charged()); }
Work work(const Attention& o) { return {attention_flops(o.out, o.heads), all(o.qkv, o.out, o.lse), o.qkv.dtype()}; }
Work work(const AttentionBackward& o) {
  return {2.5 * attention_flops(o.out, o.heads), all(o.qkv, o.out, o.lse, o.dout, o.dqkv), o.qkv.dtype()};
}
Work work(const SplitHeads& o) { return {0, all(o.qkv, o.q, o.k, o.v)}; }
Work work(const SplitHeadsBackward& o) { return {0, all(o.dq, o.dk, o.dv, o.dqkv)}; }
Work work(const MergeHeads& o) { return {0, all(o.x, o.out)}; }
Work work(const CausalMask& o) { return {0, all(o.mask)}; }
Work work(const MaskedSoftmax& o) { return {0, 2 * bytes(o.x) + all(o.x, o.y)}; }  // masked_fill, then softmax
Work work(const SoftmaxBackward& o) { return {0, all(o.y, o.dy, o.dy)}; }
Work work(const Tanh& o) { return {0, all(o.x, o.y)}; }
Work work(const TanhBackward& o) { return {0, all(o.y, o.dy, o.dy)}; }
Work work(const Gelu& o) { return {0, all(o.x, o.y)}; }
Work work(const GeluBackward& o) { return {0, all(o.x, o.dy, o.dy)}; }
Work work(const Silu& o) { return {0, all(o.x, o.y)}; }
Work work(const SiluBackward& o) { return {0, all(o.x, o.dy, o.dy)}; }
Work work(const SwiGlu& o) { return {0, all(o.gate, o.up, o.y)}; }
Work work(const SwiGluBackward& o) { return {0, all(o.gate, o.up, o.dy, o.dgate, o.dup)}; }
Work work(const Scale& o) { return {0, all(o.x, o.y)}; }
Work work(const Cube& o) { return {0, all(o.x, o.y)}; }
Work work(const CubeBackward& o) { return {0, all(o.x, o.dy, o.dy)}; }
Work work(const Multiply& o) { return {0, all(o.a, o.b, o.y)}; }
Work work(const MseLoss& o) { return {0, all(o.pred, o.target, o.dpred)}; }
Work work(const CrossEntropy& o) { return {0, all(o.logits, o.logits, o.dlogits)}; }  // statistics, then the gradient
Work work(const LogSoftmax& o) { return {0, all(o.x, o.x, o.y)}; }
Work work(const NllLoss& o) { return {0, all(o.dlogp)}; }
Work work(const LogSoftmaxBackward& o) { return {0, all(o.y, o.dy, o.dy, o.dx)}; }
Work work(const Copy& o) { return {0, all(o.from, o.to)}; }
Work work(const Add& o) { return {0, all(o.x, o.y, o.y)}; }
Work work(const Fill& o) { return {0, all(o.x)}; }
Work work(const SumSquares& o) { return {0, all(o.x)}; }
Work work(const ClipFactor& o) { return {0, all(o.squares, o.factor)}; }
Work work(const Adam& o) {
  const bool has_master = o.master.in != o.param.in;
  return {0, bytes(o.grad) + 2 * all(o.master, o.m, o.v) + (has_master ? bytes(o.param) : 0)};
}
// clang-format on

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
