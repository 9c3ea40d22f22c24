// What must not change a bit: where a tensor begins, and how it is cut. And the rounding to bf16.
#include <doctest/doctest.h>

#include <functional>
#include <limits>

#include "numerics/buffer.h"

using namespace shardsim;
using namespace shardsim::numerics_tests;

namespace {

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

/// The transformer's ops on two sequences of n tokens: 4 query heads on 2 key/value heads of 6 numbers.
void add_attention(std::vector<Op>& ops, Workbench& b, std::int64_t n, Dtype type) {
  const Heads heads{dim(4), dim(2), dim(n)};
  auto head_rows = [&] { return b.matrix(2 * 4 * n, 6, type); };
  auto tokens = [&](std::int64_t cols) { return b.matrix(2 * n, cols, type); };
  for (bool ta : {false, true})
    for (bool tb : {false, true})
      ops.push_back(BatchedMatmul{ta ? b.matrix(3 * 6, n, type) : b.matrix(3 * n, 6, type),
                                  tb ? b.matrix(3 * n, 6, type) : b.matrix(3 * 6, n, type), b.matrix(3 * n, n, type), dim(3),
                                  dim(6), ta, tb});
  ops.push_back(Rotate{tokens(48), heads, 10000, false});
  const Tensor qkv = tokens(48), out = tokens(24), lse = b.matrix(2 * n, 4);
  ops.push_back(Attention{qkv, out, lse, heads});
  ops.push_back(AttentionBackward{qkv, out, lse, tokens(24), tokens(48), heads});
  ops.push_back(SplitHeads{qkv, head_rows(), head_rows(), head_rows(), heads});
  ops.push_back(SplitHeadsBackward{head_rows(), head_rows(), head_rows(), tokens(48), heads});
  ops.push_back(MergeHeads{head_rows(), tokens(24), heads, false});
  const Tensor mask = b.matrix(n, n, Dtype::uint8), scores = b.matrix(2 * n, n, type);
  ops.push_back(CausalMask{mask});
  ops.push_back(MaskedSoftmax{scores, mask, scores});
  ops.push_back(SoftmaxBackward{scores, b.matrix(2 * n, n, type)});
}

/// Embeddings, norms and losses: 5 tokens, rows of n numbers.
void add_rows(std::vector<Op>& ops, Workbench& b, std::int64_t n, Dtype type) {
  auto rows = [&] { return b.matrix(5, n, type); };
  auto row = [&] { return b.vector(n, type); };
  const Tensor ids = b.vector({2, 0, 2, 6, 1}, Dtype::int64);
  ops.push_back(AddBias{row(), rows()});
  ops.push_back(AddBias{b.matrix(2, n, type), b.matrix(6, n, type)});
  ops.push_back(SumRows{rows(), row(), true});
  ops.push_back(SumRows{b.matrix(6, n, type), b.matrix(2, n, type), false});
  ops.push_back(Embed{ids, b.matrix(7, n, type), rows()});
  ops.push_back(EmbedBackward{ids, rows(), b.matrix(7, n, type), true});
  for (bool centred : {false, true}) {
    auto bias = [&] { return centred ? row() : Tensor{}; };
    const Tensor x = rows(), gain = row(), stats = b.matrix(5, centred ? 2 : 1);
    ops.push_back(Norm{x, gain, bias(), rows(), stats, 1e-5f});
    ops.push_back(NormBackward{x, gain, stats, rows(), rows(), row(), bias(), true});
  }
  if (n == 0) return;  // a loss over no classes has no target
  const Tensor targets = b.vector({0, float(n - 1), float(n / 2), 0, 0}, Dtype::int64), logits = rows();
  ops.push_back(CrossEntropy{logits, targets, logits, b.vector(1), {}, 2});
  const Tensor logp = rows();
  ops.push_back(LogSoftmax{rows(), logp});
  ops.push_back(NllLoss{logp, targets, rows(), b.vector(1), {}, 2});
  ops.push_back(LogSoftmaxBackward{logp, rows(), rows()});
}

/// An op of every kind over n elements, made of the bench's tensors.
std::vector<Op> all_ops(Workbench& b, std::int64_t n, Dtype type) {
  const AdamRule rule{1e-2f, 0.9f, 0.99f, 1e-6f, 0.01f, true};
  std::vector<Op> ops;
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      const Tensor a = ta ? b.matrix(19, n, type) : b.matrix(n, 19, type), c = tb ? b.matrix(n, 19, type) : b.matrix(19, n, type);
      ops.push_back(Matmul{a, c, b.matrix(n, n, type), ta, tb, ta != tb});
    }
  ops.push_back(Matmul{b.matrix(n, 19, type), b.matrix(19, n, type), b.matrix(n, n, type), false, false, false, b.vector(n, type)});
  add_attention(ops, b, n, type);
  add_rows(ops, b, n, type);
  auto some = [&] { return b.vector(n, type); };
  ops.push_back(Tanh{some(), some()});
  ops.push_back(TanhBackward{some(), some()});
  ops.push_back(Gelu{some(), some()});
  ops.push_back(GeluBackward{some(), some()});
  ops.push_back(Silu{some(), some()});
  ops.push_back(SiluBackward{some(), some()});
  ops.push_back(SwiGlu{some(), some(), some()});
  ops.push_back(SwiGluBackward{some(), some(), some(), some(), some()});
  ops.push_back(Scale{some(), some(), 0.7, 0.1});
  ops.push_back(Cube{some(), some()});
  ops.push_back(CubeBackward{some(), some()});
  ops.push_back(Multiply{some(), some(), some()});
  ops.push_back(MseLoss{b.vector(n, type), b.vector(n, type), b.vector(n, type), b.vector(1), {}, 2});
  ops.push_back(Copy{b.vector(n), b.vector(n, type)});
  const std::vector<Chunk> halves{{dim(0), dim(n - n / 2), dim(n / 2)}, {dim(n / 2), dim(0), dim(n - n / 2)}};
  const Chunks two_chunks = shared(halves);
  for (const bool scatters : {false, true})
    ops.push_back(ChunkCopy{b.vector(n, type), b.vector(n, type), two_chunks, scatters, 0.3, false});
  const Tensor bytes = b.vector(n, Dtype::int8);
  const Tensor scales = b.vector(n);
  ops.push_back(Quantize{some(), bytes, scales.slice(dim(0), Dim((n + 7) / 8, n))});
  ops.push_back(Dequantize{bytes, scales, some()});
  const Tensor twice = b.vector(2 * n, Dtype::int8), twice_scales = b.vector(2 * n);
  ops.push_back(SumQuantized{twice, twice_scales, bytes, scales.slice(dim(0), Dim((n + 7) / 8, n)), 2, 4});
  ops.push_back(Add{b.vector(n, type), b.vector(n, type)});
  ops.push_back(Fill{b.vector(n, type), 0.3f});
  ops.push_back(SumSquares{b.vector(n, type), b.vector(1)});
  ops.push_back(ClipFactor{b.squares(n), b.vector(2), b.squares(3), 0.1f, 0.5f, LossScale{}});
  ops.push_back(Adam{b.vector(n, type),
                     b.vector(std::vector<float>(2, 0.f)),
                     {},
                     b.vector(n),
                     b.vector(n),
                     b.squares(n),
                     b.vector(n, type),
                     rule,
                     0.25f,
                     3});
  return ops;
}

}  // namespace

TEST_CASE("every op gives the same bits at every offset of its storage") {
  numerics::fix_blocking();
  for (Dtype type : {Dtype::fp32, Dtype::bf16})
    for (std::int64_t n : {0, 1, 3, 17, 64}) {
      CAPTURE(name_of(type));
      CAPTURE(n);
      Workbench first(0);
      const std::vector<Op> ops = all_ops(first, n, type);
      for (const Op& op : ops) numerics::run(op);
      for (int offset = 1; offset < 16; ++offset) {
        CAPTURE(offset);
        Workbench bench(offset);
        for (const Op& op : all_ops(bench, n, type)) numerics::run(op);
        CHECK(bench.bits() == first.bits());
        CHECK(bench.margins_untouched());
      }
    }
}

TEST_CASE("the list of ops above has one of every kind") {
  Workbench bench;
  std::vector<bool> seen(std::variant_size_v<Op>);
  for (const Op& op : all_ops(bench, 1, Dtype::fp32)) seen[op.index()] = true;
  CHECK(seen == std::vector<bool>(std::variant_size_v<Op>, true));
}

TEST_CASE("Adam on two slices gives the bits of Adam on the whole") {
  for (std::int64_t border : {0, 1, 7, 16, 39, 64}) {
    CAPTURE(border);
    Workbench whole, halves;
    auto run = [](Workbench& bench, const std::vector<std::pair<std::int64_t, std::int64_t>>& slices) {
      const Tensor grad = bench.vector(64), master = bench.vector(64), m = bench.vector(64), v = bench.squares(64);
      for (auto [begin, count] : slices) {
        auto cut = [b = dim(begin), c = dim(count)](Tensor t) { return t.slice(b, c); };
        numerics::run(Adam{cut(grad), {}, {}, cut(master), cut(m), cut(v), cut(master), AdamRule{}, 0.5f, 2});
      }
    };
    run(whole, {{0, 64}});
    run(halves, {{0, border}, {border, 64 - border}});
    CHECK(halves.bits() == whole.bits());
  }
}

TEST_CASE("bf16 rounds to the nearest, ties to even") {
  CHECK(bits_of(numerics::to_bf16(from_bits(0x3f800000))) == 0x3f800000);  // 1
  CHECK(bits_of(numerics::to_bf16(from_bits(0x3f807fff))) == 0x3f800000);  // below half a step
  CHECK(bits_of(numerics::to_bf16(from_bits(0x3f808000))) == 0x3f800000);  // half a step: down to even
  CHECK(bits_of(numerics::to_bf16(from_bits(0x3f808001))) == 0x3f810000);
  CHECK(bits_of(numerics::to_bf16(from_bits(0x3f818000))) == 0x3f820000);  // half a step: up to even
  CHECK(bits_of(numerics::to_bf16(from_bits(0xbf818000))) == 0xbf820000);  // away from zero for both signs
  CHECK(bits_of(numerics::to_bf16(from_bits(0x3fff8000))) == 0x40000000);  // carries into the exponent: 2
}

TEST_CASE("bf16 keeps zeros, infinities, NaN and denormals") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  CHECK(bits_of(numerics::to_bf16(0.f)) == 0);
  CHECK(bits_of(numerics::to_bf16(-0.f)) == 0x80000000);
  CHECK(numerics::to_bf16(infinity) == infinity);
  CHECK(numerics::to_bf16(-infinity) == -infinity);
  CHECK(numerics::to_bf16(std::numeric_limits<float>::max()) == infinity);  // nearer to 2^128 than to the largest bf16
  CHECK(bits_of(numerics::to_bf16(from_bits(0x7f7f7fff))) == 0x7f7f0000);   // the largest that is not
  for (std::uint32_t nan : {0x7fc00000u, 0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    const std::uint32_t rounded = bits_of(numerics::to_bf16(from_bits(nan)));
    CHECK((rounded & 0x7fffffffu) > 0x7f800000u);
    CHECK((rounded & 0xffffu) == 0);
    CHECK((rounded & 0x80000000u) == (nan & 0x80000000u));
  }
  CHECK(bits_of(numerics::to_bf16(from_bits(0x00018000))) == 0x00020000);  // a denormal, half a step: up to even
  CHECK(bits_of(numerics::to_bf16(from_bits(0x00008000))) == 0);           // half of the smallest: down to even
  CHECK(bits_of(numerics::to_bf16(from_bits(0x00008001))) == 0x00010000);
  CHECK(bits_of(numerics::to_bf16(from_bits(0x007fffff))) == 0x00800000);  // the largest denormal becomes normal
}

TEST_CASE("all 65536 bf16 numbers round to themselves") {
  int changed = 0;
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    const float x = from_bits(high << 16);
    if (x == x) changed += bits_of(numerics::to_bf16(x)) != bits_of(x);
  }
  CHECK(changed == 0);
}

TEST_CASE("new storage is 64-byte aligned and holds NaN; none is null") {
  for (std::int64_t n : {1, 3, 17, 64}) {
    void* at = numerics::allocate(dim(n));
    CHECK(reinterpret_cast<std::uintptr_t>(at) % 64 == 0);
    for (std::int64_t i = 0; i < n; ++i) CHECK(std::isnan(static_cast<float*>(at)[i]));
    numerics::release(at);
  }
  CHECK(numerics::allocate(none) == nullptr);
  CHECK(numerics::allocate(Dim(100, 0)) == nullptr);
}

TEST_CASE("what is staged is rounded, cut to the source and followed by zeros") {
  Workbench bench;
  const Tensor to = bench.vector(5, Dtype::bf16);
  const std::vector<float> host = {1, 1 + 1 / 256.f, 1 + 3 / 256.f};
  CHECK(numerics::staged(to, {&host, dim(1), dim(2)}) == std::vector<float>{1, 1 + 4 / 256.f, 0, 0, 0});
  CHECK(numerics::staged(to, {&host, dim(1), dim(9)}) == std::vector<float>{1, 1 + 4 / 256.f, 0, 0, 0});
  CHECK(numerics::staged(to, {&host, dim(7), dim(2)}) == std::vector<float>{0, 0, 0, 0, 0});
  CHECK(numerics::staged(to.slice(dim(2), none), {&host, none, dim(3)}).empty());
}
