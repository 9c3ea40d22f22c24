// Prices by hand: products in waves, output writes, attention curves, the bytes of software stacks, the passes of Adam.
#include <doctest/doctest.h>

#include <vector>

#include "core/crossing.h"
#include "core/error.h"
#include "cost/gpus.h"
#include "cost/ops.h"
#include "cost/price.h"
#include "cost/stack.h"

using namespace shardsim;
using namespace shardsim::test;
using doctest::Approx;

TEST_CASE("a product on the last wave of few tiles waits for it") {
  // 1024 x 2048 outputs are 8 x 8 = 64 tiles of 128 x 256, or 128 of 128 x 128, which run at 0.95 of the speed.
  CHECK(cost::wave(1024, 2048, 1, 64) == Approx(1));                      // one full wave
  CHECK(cost::wave(1024, 2048, 1, 32) == Approx(1));                      // two
  CHECK(cost::wave(1024, 2048, 1, 100) == Approx(100 / 64.0));            // 36 of 100 idle
  CHECK(cost::wave(1024, 2048, 1, 63) == Approx(3 * 63 / 128.0 / 0.95));  // 3 waves of the smaller beat 2 of the larger, 2 x 63/64
  CHECK(cost::wave(1024, 2048, 2, 128) == Approx(1));                     // two such products side by side
  CHECK(cost::wave(1024, 2048, 1, 0) == 1);
  CHECK(cost::wave(100, 256, 1, 1) == Approx(1.28));  // a tile of 128 rows, of which 100 are wanted
  CHECK(cost::wave(128, 128, 1, 132) == 9);           // one tile on 132: cut along the inner dimension instead
}

TEST_CASE("the smaller tile is taken where it saves more than the 5 % that it is slower by") {
  // 1152 x 1024 on 72: 9 x 4 = 36 tiles of 128 x 256 keep half busy; 72 of 128 x 128 keep all.
  CHECK(cost::wave(1152, 1024, 1, 72) == Approx(1 / 0.95));
}

TEST_CASE("a product takes its flops at the sustained rate and the write of its output") {
  Tensors t;
  Gpu gpu = round_gpu();
  const Op op = t.product(1000, 2000, 500);
  CHECK(cost::flops(op) == 2e9);
  CHECK(cost::seconds(gpu, op) == Approx(2e9 / 100e12 + 4e6 / 1e12));  // 20 us + 4 us
  gpu.output_write = 0.5;
  CHECK(cost::seconds(gpu, op) == Approx(20e-6 + 2e-6));
  gpu.output_write = 1, gpu.gemm_efficiency = 0.5, gpu.memory_efficiency = 0.8, gpu.kernel_seconds = 3e-6;
  CHECK(cost::seconds(gpu, op) == Approx(3e-6 + 40e-6 + 5e-6));
  // An fp32 output, as of a gradient, is twice the bytes at the same speed.
  CHECK(cost::seconds(round_gpu(), t.product(1000, 2000, 500, Dtype::fp32)) == Approx(20e-6 + 8e-6));
}

TEST_CASE("adding into a gradient is a kernel of its own: 6 bytes per element in bf16, 10 into fp32") {
  Tensors t;
  const Gpu gpu = round_gpu();
  for (const auto& [type, more] : {std::pair{Dtype::bf16, 6.0}, {Dtype::fp32, 10.0}}) {
    Matmul op = t.product(1000, 2000, 500, type);
    op.accumulate = true;
    const cost::Price price = cost::price(gpu, op);
    CHECK(price.kernels == 2);
    CHECK(price.seconds == Approx(20e-6 + (2 + more) * 2e6 / 1e12));  // the product's own output is bf16
  }
}

TEST_CASE("efficiency grows with the inner dimension, since the output's write is not hidden") {
  // As the public DeepGEMM tables do: K from 512 to 16384 at one output.
  Tensors t;
  Gpu gpu;
  cost::use(*cost::find_gpu("h100-sxm"), gpu);
  double before = 0;
  std::vector<double> reached;
  for (const std::int64_t k : {512, 1024, 2048, 4096, 8192, 16384}) {
    const Op op = t.product(4096, 7168, k);
    reached.push_back(cost::flops(op) / cost::seconds(gpu, op) / (gpu.bf16_flops * gpu.gemm_efficiency));
    CHECK(reached.back() > before);
    before = reached.back();
  }
  CHECK(reached.front() < 0.7);
  CHECK(reached.back() > 0.93);
}

TEST_CASE("attention: both passes together take 3.5 forward passes at the curve's rate, of which the forward pass has its share") {
  Tensors t;
  Gpu gpu = round_gpu();
  gpu.attention_64 = {50e12, 500, 0.26}, gpu.attention_128 = {80e12, 1000, 0.2};
  for (const std::int64_t s : {500, 2000}) {
    const Attention forward = t.attention(4, s, 10, 64);
    const double flop = 2.0 * 4 * double(s * s) * 10 * 64;
    const double both = 3.5 * flop / (50e12 * double(s) / double(s + 500));
    CHECK(cost::flops(forward) == flop);
    CHECK(cost::flops(t.backward(forward)) == 2.5 * flop);
    CHECK(cost::seconds(gpu, forward) == Approx(0.26 * both));
    CHECK(cost::seconds(gpu, t.backward(forward)) == Approx(0.74 * both));
  }
  const Attention wide = t.attention(4, 1000, 5, 128);  // heads of 128 follow the other curve
  CHECK(cost::seconds(gpu, wide) == Approx(0.2 * 3.5 * 2.0 * 4 * 1e6 * 5 * 128 / 40e12));
}

TEST_CASE("attention without a curve is a product that moves its tensors") {
  Tensors t;
  const Attention op = t.attention(1, 1000, 10, 100);
  CHECK(cost::seconds(round_gpu(), op) == Approx(2e9 / 100e12 + (1000 * 4000 * 2 + 1000 * 10 * 4) / 1e12));
}

TEST_CASE("explicit attention pays its products and every tensor that it stores") {
  Tensors t;
  const Gpu gpu = round_gpu();
  const std::int64_t b = 2, a = 5, s = 100, h = 64;
  const BatchedMatmul scores{t(b * a * s, h), t(b * a * s, h), t(b * a * s, s), Dim(b * a, 0), one, false, true};
  CHECK(cost::flops(scores) == 2.0 * b * a * s * s * h);  // the whole square
  CHECK(cost::seconds(gpu, scores) == Approx(cost::flops(scores) / 100e12 + 2.0 * b * a * s * s / 1e12));
  const MaskedSoftmax softmax{t(b * a * s, s), t(s, s), t(b * a * s, s)};
  CHECK(cost::price(gpu, softmax).kernels == 2);
  CHECK(cost::seconds(gpu, softmax) == Approx(8.0 * b * a * s * s / 1e12));
}

TEST_CASE("each stack moves the bytes that were fitted to public training tables, twice of them backward") {
  struct Sum {
    const char* name;
    double hidden, ffn;
  };
  const std::int64_t tokens = 1000, d = 512, f = 2048, heads = 8;
  for (const Sum& sum : {Sum{"fused", 16, 4},
                         {"compiled", 24, 6},
                         {"eager_layernorm", 26, 5},
                         {"eager_rmsnorm_fused", 50, 10},
                         {"eager_rmsnorm", 115, 10},
                         {"eager_python_rope", 180, 10}}) {
    INFO(sum.name);
    Tensors t;
    Gpu gpu = round_gpu();
    cost::use(*cost::find_stack(sum.name), gpu);
    const Heads all{Dim(heads, 0), Dim(heads, 0), Dim(100, 0)};
    const Norm norm{t(tokens, d), t(1, d), {}, t(tokens, d), t(tokens, 1, Dtype::fp32), 1e-5f};
    const NormBackward norm_backward{norm.x, norm.gain, norm.stats, norm.y, norm.x, norm.gain, {}, false};
    const Add residual{norm.x, norm.y};
    const bool turns = gpu.rotate_bytes > 0;
    const Rotate rotate{t(tokens, 3 * d), all, 1e4, false}, turn_back{rotate.qkv, all, 1e4, true};
    const SwiGlu activation{t(tokens, f), t(tokens, f), t(tokens, f)};
    const SwiGluBackward activation_backward{activation.gate, activation.up, activation.y, activation.gate, activation.up};
    const auto bytes = [&](const Op& op) { return cost::seconds(gpu, op) * 1e12; };
    const double forward = 2 * bytes(norm) + 2 * bytes(residual) + (turns ? bytes(rotate) : 0) + bytes(activation);
    CHECK(forward == Approx(double(tokens) * (sum.hidden * d + sum.ffn * f)));
    const double backward =
        2 * bytes(norm_backward) + 2 * bytes(residual) + (turns ? bytes(turn_back) : 0) + bytes(activation_backward);
    CHECK(backward == Approx(2 * forward));
  }
}

TEST_CASE("the natural stack moves the ops' tensors") {
  Tensors t;
  const Gpu gpu = round_gpu();
  CHECK(cost::seconds(gpu, Add{t(10, 100), t(10, 100)}) == Approx(6000 / 1e12));
  CHECK(cost::seconds(gpu, SwiGlu{t(10, 100), t(10, 100), t(10, 100)}) == Approx(6000 / 1e12));
  CHECK(cost::seconds(gpu, Gelu{t(10, 100), t(10, 100)}) == Approx(4000 / 1e12));
  CHECK(cost::seconds(gpu, Rotate{t(10, 300), {Dim(4, 0), Dim(4, 0), Dim(10, 0)}, 1e4, false}) == Approx(8000 / 1e12));
}

TEST_CASE("a copy that joins another's kernel costs its bytes, and no launch") {
  Tensors t;
  Gpu gpu = round_gpu();
  gpu.kernel_seconds = 1e-6;
  const Copy copy{t(1, 1000), t(1, 1000, Dtype::fp32)};
  const ChunkCopy chunk{t(1, 4000), t(10, 100, Dtype::fp32), nullptr, false, 1, false};
  CHECK(cost::seconds(gpu, copy) == Approx(1e-6 + 6000 / 1e12));
  CHECK(cost::seconds(gpu, chunk) == Approx(1e-6 + 6000 / 1e12));
  const cost::Price joined = cost::price(gpu, Copy{copy.from, copy.to, true});
  CHECK(joined.seconds == Approx(6000 / 1e12));
  CHECK(joined.kernels == 0);
  CHECK(cost::price(gpu, ChunkCopy{chunk.flat, chunk.whole, nullptr, false, 1, true}).kernels == 0);
}

TEST_CASE("quantizing reads the numbers once and writes a byte each and four per group") {
  Tensors t;
  Gpu gpu = round_gpu();
  gpu.kernel_seconds = 1e-6;
  const Tensor x = t(1, 8000), q = t(1, 8000, Dtype::int8), scales = t(1, 2, Dtype::fp32);
  CHECK(cost::price(gpu, Quantize{x, q, scales}).kernels == 1);
  CHECK(cost::seconds(gpu, Quantize{x, q, scales}) == Approx(1e-6 + 24008 / 1e12));
  CHECK(cost::seconds(gpu, Dequantize{q, scales, x}) == Approx(1e-6 + 24008 / 1e12));
}

TEST_CASE("numbers of 4 bits are half a byte, and summing them reads all parts and writes one") {
  Tensors t;
  Gpu gpu = round_gpu();
  gpu.kernel_seconds = 1e-6;
  const Tensor x = t(1, 8000), q = t(1, 4000, Dtype::int8), scales = t(1, 4, Dtype::fp32);
  const Tensor sum = t(1, 1000, Dtype::int8), sum_scales = t(1, 1, Dtype::fp32);
  CHECK(cost::seconds(gpu, Quantize{x, q, scales, 4}) == Approx(1e-6 + 20016 / 1e12));
  CHECK(cost::seconds(gpu, Quantize{x, q, scales, 4, true}) == Approx(20016 / 1e12));
  CHECK(cost::seconds(gpu, SumQuantized{q, scales, sum, sum_scales, 4, 4}) == Approx(1e-6 + 5020 / 1e12));
}

TEST_CASE("sums of gradients are no residuals: a stack does not change them") {
  Tensors t;
  Gpu gpu = round_gpu();
  cost::use(*cost::find_stack("fused"), gpu);
  CHECK(cost::seconds(gpu, Add{t(1, 1000), t(1, 1000)}) == Approx(6000 / 1e12));
  CHECK(cost::seconds(gpu, Add{t(10, 100), t(10, 100)}) == Approx(4000 / 1e12));
}

TEST_CASE("the fused cross entropy moves 6 bytes per logit in bf16") {
  Tensors t;
  const CrossEntropy op{t(10, 1000), t(10, 1, Dtype::fp32), t(10, 1000), t(1, 1, Dtype::fp32), {}, 1};
  CHECK(cost::seconds(round_gpu(), op) == Approx(60000 / 1e12));
}

TEST_CASE("fused Adam is one kernel over its tensors, 28 bytes per parameter in fp32") {
  Tensors t;
  const cost::Price price = cost::price(round_gpu(), t.adam(1000, AdamPasses::fused));
  CHECK(price.kernels == 1);
  CHECK(price.seconds == Approx(28e3 / 1e12));
}

TEST_CASE("foreach and for_loop Adam pass over memory once per operation") {
  Tensors t;
  for (const AdamPasses passes : {AdamPasses::foreach, AdamPasses::for_loop}) {
    // lerp 3, mul 2, addcmul 3, sqrt 2, div 2, add 2, addcdiv 4 tensors of fp32
    Adam op = t.adam(1000, passes);
    CHECK(cost::price(round_gpu(), op).kernels == 7);
    CHECK(cost::seconds(round_gpu(), op) == Approx(18 * 4e3 / 1e12));
    op.rule.weight_decay = 0.1f, op.rule.decoupled = true;  // param.mul_: 2
    CHECK(cost::price(round_gpu(), op).kernels == 8);
    CHECK(cost::seconds(round_gpu(), op) == Approx(20 * 4e3 / 1e12));
    op.rule.decoupled = false;  // grad + decay param, into a new tensor: 3
    CHECK(cost::seconds(round_gpu(), op) == Approx(21 * 4e3 / 1e12));
    op.factor = t(1, 2, Dtype::fp32);  // the clip coefficient: 2
    CHECK(cost::seconds(round_gpu(), op) == Approx(23 * 4e3 / 1e12));
    // A bf16 gradient is converted first (2 + 4 bytes), a bf16 parameter written last (4 + 2).
    Adam mixed = t.adam(1000, passes, Dtype::bf16);
    mixed.param = t(1, 1000);
    CHECK(cost::price(round_gpu(), mixed).kernels == 9);
    CHECK(cost::seconds(round_gpu(), mixed) == Approx((18 * 4 + 12) * 1e3 / 1e12));
  }
}

TEST_CASE("an op without charged elements costs nothing and is not launched") {
  Tensors t;
  Gpu gpu = round_gpu();
  gpu.kernel_seconds = 1e-6;
  CHECK(cost::price(gpu, Fill{t(1, 0), 0}).kernels == 0);
  CHECK(cost::price(gpu, Fill{t(1, 0), 0}).seconds == 0);
}

TEST_CASE("the words of a price hold its numbers: waves, curve, rates") {
  Tensors t;
  Gpu gpu;
  cost::use(*cost::find_gpu("h100-sxm"), gpu);
  const std::string product = cost::in_words(gpu, t.product(4096, 5120, 1280));
  for (const char* part : {"matmul: 0.0001011 s", "5.36871e+10 flop", "waves of 1 x 4096 x 5120 on 132", "(9.89e+14 flop/s x 0.65)",
                           "4.1943e+07 B / (3.35e+12 B/s x 0.91)", "1 x kernel 1.2e-06 s"})
    CHECK_MESSAGE(product.find(part) != std::string::npos, product);
  const Attention forward = t.attention(4, 1024, 20, 64);
  const std::string words = cost::in_words(gpu, forward), back = cost::in_words(gpu, t.backward(forward));
  CHECK_MESSAGE(words.find("0.26 x 3.7581e+10 flop (3.5 forward passes) / (2.93e+14 flop/s x 1024 / (1024 + 546) tokens)") !=
                    std::string::npos,
                words);
  CHECK_MESSAGE(back.find("0.74 x 3.7581e+10 flop") != std::string::npos, back);
}

TEST_CASE("what touches the host's memory alone is the CPU's work, what touches both a copy, each at the host's own speed") {
  Tensors t;
  Gpu gpu = round_gpu();
  gpu.kernel_seconds = 3e-6, gpu.host_memory_bandwidth = 50e9, gpu.host_link_bandwidth = 25e9;
  const auto on_host = [&t](std::int64_t n, Dtype type) {
    Tensor tensor = t(1, n, type);
    tensor.in->place = Place::host;
    return tensor;
  };
  Adam adam = t.adam(1000, AdamPasses::fused);
  for (const Tensor* tensor : {&adam.grad, &adam.master, &adam.m, &adam.v}) tensor->in->place = Place::host;
  CHECK(cost::seconds(gpu, adam) == Approx(28e3 / 50e9));
  CHECK(crossing(adam).on_host);
  CHECK(crossing(adam).bytes() == 0);
  const Tensor here = t(1, 1000), there = on_host(1000, Dtype::bf16);
  CHECK(cost::seconds(gpu, Copy{here, there}) == Approx(3e-6 + 2e3 / 25e9));
  CHECK(cost::seconds(gpu, Copy{there, here}) == cost::seconds(gpu, Copy{here, there}));
  CHECK(crossing(Copy{here, there}).to_host == 2000);
  CHECK(crossing(Copy{here, there}).to_device == 0);
  CHECK(crossing(Copy{there, here}).to_device == 2000);
  CHECK_FALSE(crossing(Copy{there, here}).on_host);
  CHECK(crossing(Copy{here, here}).bytes() == 0);
  CHECK(cost::seconds(gpu, Copy{there, on_host(1000, Dtype::fp32)}) == Approx(6e3 / 50e9));
  CHECK(cost::in_words(gpu, Copy{here, there}).find("2000 B / (2.5e+10 B/s of the host's link)") != std::string::npos);
  CHECK(cost::in_words(gpu, adam).find("28000 B / (5e+10 B/s of the host's memory)") != std::string::npos);
  gpu.host_link_bandwidth = 0;
  CHECK_THROWS_WITH_AS(cost::seconds(gpu, Copy{here, there}), doctest::Contains("prices.host_link_bandwidth"), ScenarioError);
}
