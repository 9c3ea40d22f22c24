// Prices: each op's kernels, bytes and floating-point operations, from its charged sizes.
#include "cost/price.h"

#include <algorithm>
#include <cstdio>

#include "core/crossing.h"
#include "core/error.h"

namespace shardsim::cost {
namespace {

struct Work {
  double flops = 0;    // of matrix products
  double bytes = 0;    // that the memory moves
  double written = 0;  // of these, by a product that hides a part of them
  Dtype type = Dtype::fp32;
  int kernels = 1;
  std::int64_t m = 0, n = 0, batch = 1;  // a product's outputs
  const AttentionSpeed* attention = nullptr;
  double attention_seconds = 0;
  std::int64_t sequence = 0;
};

double bytes(const Tensor& tensor) { return double(tensor.bytes()); }
double count(const Tensor& tensor) { return double(tensor.count().charged()); }
double all(const auto&... tensors) { return (0.0 + ... + (tensors ? bytes(tensors) : 0.0)); }

/// The stack's bytes for the elements of x, `times` over; what the tensors say where the stack is natural.
Work elementwise(double per_element, double times, const Tensor& x, double natural) {
  return {0, per_element > 0 ? times * per_element * count(x) : natural};
}

/// Adding what has just been made to what is there, in PyTorch a kernel of its own: two reads and a write.
Work added(Work work, bool accumulate, const Tensor& out, double made) {
  if (accumulate) work.bytes += made + 2 * bytes(out), ++work.kernels;
  return work;
}

Work product(const Tensor& a, const Tensor& out, double inner, std::int64_t batch, bool accumulate) {
  const double made = accumulate ? count(out) * bytes_of(a.dtype()) : bytes(out);
  Work work{2 * count(out) * inner, made, made, a.dtype()};
  work.m = out.rows.charged() / batch, work.n = out.cols.charged(), work.batch = batch;
  return added(work, accumulate, out, made);
}

/// `passes` is 1 for the forward, 2.5 for the backward pass: two products over the causal half of the square, and five.
Work attention(const Gpu& gpu, const Tensor& out, const Heads& heads, double passes, double natural) {
  const double forward = 2 * count(out) * double(heads.sequence.charged());
  Work work{passes * forward, natural, 0, out.dtype()};
  const AttentionSpeed& speed = out.cols.charged() <= 64 * heads.count.charged() ? gpu.attention_64 : gpu.attention_128;
  if (speed.flops == 0 || out.dtype() == Dtype::fp32) return work;
  work.attention = &speed, work.sequence = heads.sequence.charged();
  const double s = double(work.sequence), share = passes == 1 ? speed.forward_share : 1 - speed.forward_share;
  work.attention_seconds = share * 3.5 * forward * (s + speed.half_sequence) / (speed.flops * s);
  work.bytes = 0;
  return work;
}

/// The passes over memory of PyTorch's Adam (torch/optim/adamw.py), in units of the fp32 parameters' bytes.
Work adam_in_passes(const Adam& o) {
  Work work;
  work.kernels = 0;
  const auto pass = [&](double moved) { work.bytes += moved, work.kernels += o.joins ? 0 : 1; };
  const double p = bytes(o.m);                                 // as many elements, fp32
  if (o.grad.dtype() != Dtype::fp32) pass(bytes(o.grad) + p);  // grad to fp32
  if (o.factor) pass(2 * p);                                   // grad *= clip coefficient
  if (o.rule.weight_decay > 0)
    pass(o.rule.decoupled ? 2 * p : 3 * p);                            // param *= 1 - lr decay; or grad + decay param, a new tensor
  pass(3 * p);                                                         // m.lerp_(grad)
  pass(2 * p);                                                         // v.mul_(beta2)
  pass(3 * p);                                                         // v.addcmul_(grad, grad)
  pass(2 * p);                                                         // denominator = v.sqrt(), a new tensor
  pass(2 * p);                                                         // denominator /= bias correction
  pass(2 * p);                                                         // denominator += eps
  pass(4 * p);                                                         // param.addcdiv_(m, denominator)
  if (o.param && o.master.in != o.param.in) pass(p + bytes(o.param));  // param = master, rounded
  return work;
}

// A Work names what moves: reads and writes of each tensor, as often as the kernel touches it.
// clang-format off
Work work(const Gpu&, const Matmul& o) {
  return product(o.a, o.out, double((o.ta ? o.a.rows : o.a.cols).charged()), 1, o.accumulate);
}
Work work(const Gpu&, const BatchedMatmul& o) {
  const std::int64_t batch = o.batch.charged();
  return product(o.a, o.out, double(o.ta ? o.a.rows.charged() / batch : o.a.cols.charged()), batch, false);
}
Work work(const Gpu&, const AddBias& o) { return {0, 2 * bytes(o.x)}; }
Work work(const Gpu&, const SumRows& o) { return {0, all(o.x, o.out)}; }
Work work(const Gpu&, const Embed& o) { return {0, all(o.ids) + 2 * bytes(o.out)}; }
Work work(const Gpu&, const EmbedBackward& o) {  // a table of zeros, then rows read and written
  return added({0, all(o.ids, o.dtable) + 2 * bytes(o.dout)}, o.accumulate, o.dtable, bytes(o.dtable));
}
Work work(const Gpu& gpu, const Norm& o) { return elementwise(gpu.norm_bytes, 1, o.x, all(o.x, o.y, o.stats)); }
Work work(const Gpu& gpu, const NormBackward& o) {
  // A residual's backward pass moves twice its forward's bytes, too, but has one Add only: the other half stands here, where the
  // gradient of a residual branch ends.
  const double stack = gpu.norm_bytes > 0 ? 2 * gpu.norm_bytes + gpu.residual_bytes : 0;
  return elementwise(stack, 1, o.x, all(o.x, o.dy, o.stats, o.dx));
}
Work work(const Gpu& gpu, const Rotate& o) {
  const double heads = double(o.heads.count.charged()), kv = double(o.heads.kv.charged());
  const double queries = heads / (heads + 2 * kv);  // of the columns
  return elementwise(gpu.rotate_bytes, (o.inverse ? 2 : 1) * queries, o.qkv, 2 * bytes(o.qkv) * (heads + kv) / (heads + 2 * kv));
}
Work work(const Gpu& gpu, const Attention& o) { return attention(gpu, o.out, o.heads, 1, all(o.qkv, o.out, o.lse)); }
Work work(const Gpu& gpu, const AttentionBackward& o) {
  return attention(gpu, o.out, o.heads, 2.5, all(o.qkv, o.out, o.lse, o.dout, o.dqkv));
}
Work work(const Gpu&, const SplitHeads& o) { return {0, all(o.qkv, o.q, o.k, o.v)}; }
Work work(const Gpu&, const SplitHeadsBackward& o) { return {0, all(o.dq, o.dk, o.dv, o.dqkv)}; }
Work work(const Gpu&, const MergeHeads& o) { return {0, all(o.x, o.out)}; }
Work work(const Gpu&, const CausalMask& o) { return {0, all(o.mask)}; }
Work work(const Gpu&, const MaskedSoftmax& o) {  // masked_fill, then softmax
  Work work{0, 2 * bytes(o.x) + all(o.x, o.y)};
  work.kernels = 2;
  return work;
}
Work work(const Gpu&, const SoftmaxBackward& o) { return {0, all(o.y, o.dy, o.dy)}; }
Work work(const Gpu&, const Tanh& o) { return {0, all(o.x, o.y)}; }
Work work(const Gpu&, const TanhBackward& o) { return {0, all(o.y, o.dy, o.dy)}; }
Work work(const Gpu& gpu, const Gelu& o) { return elementwise(gpu.activation_bytes, 1, o.y, all(o.x, o.y)); }
Work work(const Gpu& gpu, const GeluBackward& o) { return elementwise(gpu.activation_bytes, 2, o.dy, all(o.x, o.dy, o.dy)); }
Work work(const Gpu&, const Silu& o) { return {0, all(o.x, o.y)}; }
Work work(const Gpu&, const SiluBackward& o) { return {0, all(o.x, o.dy, o.dy)}; }
Work work(const Gpu& gpu, const SwiGlu& o) { return elementwise(gpu.activation_bytes, 1, o.y, all(o.gate, o.up, o.y)); }
Work work(const Gpu& gpu, const SwiGluBackward& o) {
  return elementwise(gpu.activation_bytes, 2, o.dy, all(o.gate, o.up, o.dy, o.dgate, o.dup));
}
Work work(const Gpu&, const Scale& o) { return {0, all(o.x, o.y)}; }
Work work(const Gpu&, const Cube& o) { return {0, all(o.x, o.y)}; }
Work work(const Gpu&, const CubeBackward& o) { return {0, all(o.x, o.dy, o.dy)}; }
Work work(const Gpu&, const Multiply& o) { return {0, all(o.a, o.b, o.y)}; }
Work work(const Gpu&, const Dropout& o) { return {0, all(o.x, o.mask, o.y)}; }
Work work(const Gpu&, const DropoutBackward& o) { return {0, all(o.dy, o.mask, o.dx)}; }
Work work(const Gpu&, const MseLoss& o) { return {0, all(o.pred, o.target, o.dpred)}; }
Work work(const Gpu&, const CrossEntropy& o) { return {0, all(o.logits, o.logits, o.dlogits)}; }  // statistics, then the gradient
Work work(const Gpu&, const LogSoftmax& o) { return {0, all(o.x, o.y)}; }  // the rows in flight stay in the L2 cache: read once
Work work(const Gpu&, const NllLoss& o) { return {0, all(o.dlogp)}; }
Work work(const Gpu&, const LogSoftmaxBackward& o) { return {0, all(o.y, o.dy, o.dx)}; }
/// What joins another kernel has its bytes, and no launch.
Work moved(double bytes, bool joins) {
  Work work{0, bytes};
  work.kernels = joins ? 0 : 1;
  return work;
}
Work work(const Gpu&, const Copy& o) { return moved(all(o.from, o.to), o.joins); }
Work work(const Gpu&, const ChunkCopy& o) {
  return moved(bytes(o.whole) + count(o.whole) * double(bytes_of(o.flat.dtype())), o.joins);
}
Work work(const Gpu&, const Quantize& o) { return moved(all(o.x, o.q, o.scales), o.joins); }
Work work(const Gpu&, const Dequantize& o) { return {0, all(o.q, o.scales, o.x)}; }
Work work(const Gpu&, const SumQuantized& o) { return {0, all(o.q, o.scales, o.sum_q, o.sum_scales)}; }
Work work(const Gpu& gpu, const Add& o) {  // of matrices: a residual; of vectors: gradients
  return elementwise(o.y.rows.charged() > 1 ? gpu.residual_bytes : 0, 1, o.y, all(o.x, o.y, o.y));
}
Work work(const Gpu&, const Fill& o) { return {0, all(o.x)}; }
Work work(const Gpu&, const SumSquares& o) { return {0, all(o.x)}; }
Work work(const Gpu&, const ClipFactor& o) { return {0, all(o.squares, o.factor)}; }
Work work(const Gpu&, const Adam& o) {
  if (o.rule.passes != AdamPasses::fused) return adam_in_passes(o);
  const bool has_master = o.master.in != o.param.in;
  return moved(bytes(o.grad) + 2 * all(o.master, o.m, o.v) + (has_master ? bytes(o.param) : 0), o.joins);
}
// clang-format on

Work work(const Gpu& gpu, const Op& op) {
  return std::visit([&gpu](const auto& o) { return work(gpu, o); }, op);
}

double known(double fact, const char* name, const Gpu& gpu, const Op& op) {
  if (fact > 0) return fact;
  throw ScenarioError(std::string("prices.") + name + ": " + name_of(op) + " needs it, and it is not known of the host of GPU '" +
                      gpu.name + "'; say it in prices or in the platform, as in " + name + ": 50GBps (this GPU's share)");
}
double host_memory(const Gpu& gpu, const Op& op) { return known(gpu.host_memory_bandwidth, "host_memory_bandwidth", gpu, op); }
double host_link(const Gpu& gpu, const Op& op) { return known(gpu.host_link_bandwidth, "host_link_bandwidth", gpu, op); }

double peak(const Gpu& gpu, Dtype type) { return type == Dtype::fp32 ? gpu.fp32_flops : gpu.bf16_flops; }  // fp16 runs as bf16 does

}  // namespace

double wave(std::int64_t m, std::int64_t n, std::int64_t batch, int multiprocessors) {
  if (multiprocessors == 0 || m == 0) return 1;
  struct Tile {
    std::int64_t rows, cols;
    double speed;
  };
  double best = 9;
  for (const Tile& tile : {Tile{128, 256, 1}, Tile{256, 128, 1}, Tile{128, 128, 0.95}}) {
    const std::int64_t tiles = batch * ((m + tile.rows - 1) / tile.rows) * ((n + tile.cols - 1) / tile.cols);
    const std::int64_t waves = (tiles + multiprocessors - 1) / multiprocessors;
    const double ideal = double(batch) * double(m) * double(n) / double(tile.rows * tile.cols) / multiprocessors;
    best = std::min(best, double(waves) / (ideal * tile.speed));
  }
  return best;
}

Price price(const Gpu& gpu, const Op& op) {
  const Work w = work(gpu, op);
  if (w.bytes == 0 && w.flops == 0) return {0, 0};
  const Crossing crosses = crossing(op);
  if (crosses.on_host) return {w.bytes / host_memory(gpu, op), w.kernels};
  if (crosses.bytes() > 0) return {gpu.kernel_seconds + double(crosses.bytes()) / host_link(gpu, op), w.kernels};
  const double moved = w.bytes - (1 - gpu.output_write) * w.written;
  double time = w.kernels * gpu.kernel_seconds + moved / (gpu.memory_bandwidth * gpu.memory_efficiency);
  if (w.attention) time += w.attention_seconds;
  else if (w.flops > 0) time += w.flops * wave(w.m, w.n, w.batch, gpu.multiprocessors) / (peak(gpu, w.type) * gpu.gemm_efficiency);
  return {time, w.kernels};
}

double seconds(const Gpu& gpu, const Op& op) { return price(gpu, op).seconds; }

double flops(const Op& op) { return work(Gpu{}, op).flops; }

std::string in_words(const Gpu& gpu, const Op& op) {
  const Work w = work(gpu, op);
  std::string text;
  const auto say = [&text](const char* pattern, auto... values) {
    char part[160];
    std::snprintf(part, sizeof part, pattern, values...);
    text += part;
  };
  const Crossing crosses = crossing(op);
  if (crosses.on_host)
    say("%s on the CPU: %.4g s = %.6g B / (%.4g B/s of the host's memory)", name_of(op), seconds(gpu, op), w.bytes,
        gpu.host_memory_bandwidth);
  else if (crosses.bytes() > 0)
    say("%s: %.4g s = kernel %.3g s + %.6g B / (%.4g B/s of the host's link)", name_of(op), seconds(gpu, op), gpu.kernel_seconds,
        double(crosses.bytes()), gpu.host_link_bandwidth);
  if (crosses.on_host || crosses.bytes() > 0) return text;
  say("%s: %.4g s = %d x kernel %.3g s", name_of(op), seconds(gpu, op), w.kernels, gpu.kernel_seconds);
  if (w.written > 0 && gpu.output_write != 1) say(" + (%.6g B - %.3g x %.6g B written)", w.bytes, 1 - gpu.output_write, w.written);
  else if (w.bytes > 0) say(" + %.6g B", w.bytes);
  if (w.bytes > 0) say(" / (%.4g B/s x %.3g)", gpu.memory_bandwidth, gpu.memory_efficiency);
  if (w.attention) {
    const double forward_share = w.attention->forward_share;
    const bool is_backward = std::holds_alternative<AttentionBackward>(op);
    say(" + %.3g x %.6g flop (3.5 forward passes)", is_backward ? 1 - forward_share : forward_share,
        w.flops * (is_backward ? 3.5 / 2.5 : 3.5));
    say(" / (%.4g flop/s x %lld / (%lld + %.4g) tokens)", w.attention->flops, (long long)w.sequence, (long long)w.sequence,
        w.attention->half_sequence);
  } else if (w.flops > 0) {
    say(" + %.6g flop", w.flops);
    if (gpu.multiprocessors > 0 && w.m > 0)
      say(" x %.4g (waves of %lld x %lld x %lld on %d multiprocessors)", wave(w.m, w.n, w.batch, gpu.multiprocessors),
          (long long)w.batch, (long long)w.m, (long long)w.n, gpu.multiprocessors);
    say(" / (%.4g flop/s x %.3g)", peak(gpu, w.type), gpu.gemm_efficiency);
  }
  return text;
}

}  // namespace shardsim::cost
