// Attention and the layout of its heads: gradients, and the fused kernel against the written-out one, in double precision.
#include <doctest/doctest.h>

#include "numerics/differences.h"

using namespace shardsim;
using namespace shardsim::numerics_tests;

namespace {

constexpr double limit = 1e-7;  // of the largest gradient

struct Shape {
  std::int64_t sequences, tokens, heads, kv, width;

  Heads as_heads() const { return {dim(heads), dim(kv), dim(tokens)}; }
  Tensor qkv(Bench& bench) const { return bench.matrix(sequences * tokens, (heads + 2 * kv) * width); }
  Tensor merged(Bench& bench) const { return bench.matrix(sequences * tokens, heads * width); }
  Tensor split(Bench& bench) const { return bench.matrix(sequences * heads * tokens, width); }
  Tensor scores(Bench& bench) const { return bench.matrix(sequences * heads * tokens, tokens); }
  Tensor lse(Bench& bench) const { return bench.matrix(sequences * tokens, heads); }
};

const Shape shapes[] = {{1, 1, 1, 1, 1}, {2, 1, 3, 1, 2}, {1, 5, 2, 2, 4}, {2, 7, 4, 2, 6}, {1, 66, 2, 1, 2}};

double worst_difference(const Tensor& a, const Tensor& b) {
  const auto x = Bench::values(a), y = Bench::values(b);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) worst = std::isnan(x[i] - y[i]) ? HUGE_VAL : std::max(worst, std::abs(x[i] - y[i]));
  return worst;
}

}  // namespace

TEST_CASE("gradients of causal attention, with key and value heads that several query heads share") {
  for (const Shape& shape : shapes) {
    CAPTURE(shape.tokens);
    CAPTURE(shape.heads);
    Bench bench(1);
    const Tensor qkv = shape.qkv(bench), dqkv = shape.qkv(bench), out = shape.merged(bench), dout = shape.merged(bench);
    const Tensor lse = shape.lse(bench);
    const Heads heads = shape.as_heads();
    auto forward = [&] { compute(Attention{qkv, out, lse, heads}); };
    forward();
    compute(AttentionBackward{qkv, out, lse, dout, dqkv, heads});
    CHECK(worst_gradient(forward, {{out, dout}}, {{qkv, dqkv}}) < limit);
  }
}

TEST_CASE("gradients of split and merged heads") {
  for (const Shape& shape : shapes) {
    Bench bench(2);
    const Heads heads = shape.as_heads();
    const Tensor qkv = shape.qkv(bench), dqkv = shape.qkv(bench), merged = shape.merged(bench), dmerged = shape.merged(bench);
    const Tensor q = shape.split(bench), k = shape.split(bench), v = shape.split(bench), dx = shape.split(bench);
    const Tensor dq = shape.split(bench), dk = shape.split(bench), dv = shape.split(bench);
    compute(SplitHeadsBackward{dq, dk, dv, dqkv, heads});
    CHECK(worst_gradient([&] { compute(SplitHeads{qkv, q, k, v, heads}); }, {{q, dq}, {k, dk}, {v, dv}}, {{qkv, dqkv}}) < limit);
    compute(MergeHeads{dx, dmerged, heads, true});
    CHECK(worst_gradient([&] { compute(MergeHeads{q, merged, heads, false}); }, {{merged, dmerged}}, {{q, dx}}) < limit);
  }
}

TEST_CASE("the inverse rotation is the rotation's gradient, and undoes it") {
  for (const Shape& shape : {Shape{1, 1, 1, 1, 2}, Shape{2, 5, 4, 2, 6}, Shape{1, 9, 1, 1, 4}}) {
    Bench bench(3);
    const Heads heads = shape.as_heads();
    const Tensor x = shape.qkv(bench), y = shape.qkv(bench), dy = shape.qkv(bench), dx = copy_of(bench, dy);
    compute(Rotate{dx, heads, 100, true});
    auto forward = [&] {
      compute(Copy{x, y});
      compute(Rotate{y, heads, 100, false});
    };
    CHECK(worst_gradient(forward, {{y, dy}}, {{x, dx}}) < limit);
    forward();
    compute(Rotate{y, heads, 100, true});
    CHECK(worst_difference(x, y) < 1e-14);
  }
}

TEST_CASE("fused attention is split heads, products, masked softmax and merged heads, forward and backward") {
  for (const Shape& shape : shapes) {
    CAPTURE(shape.tokens);
    CAPTURE(shape.heads);
    Bench bench(4);
    const Heads heads = shape.as_heads();
    const Dim batch = dim(shape.sequences * shape.heads), root = dim(shape.width);
    const Tensor qkv = shape.qkv(bench), fused = shape.merged(bench), lse = shape.lse(bench), written = shape.merged(bench);
    const Tensor q = shape.split(bench), k = shape.split(bench), v = shape.split(bench), x = shape.split(bench);
    const Tensor mask = bench.matrix(shape.tokens, shape.tokens), p = shape.scores(bench);
    compute(Attention{qkv, fused, lse, heads});
    compute(SplitHeads{qkv, q, k, v, heads});
    compute(BatchedMatmul{q, k, p, batch, root, false, true});
    compute(CausalMask{mask});
    compute(MaskedSoftmax{p, mask, p});
    compute(BatchedMatmul{p, v, x, batch, one, false, false});
    compute(MergeHeads{x, written, heads, false});
    CHECK(worst_difference(fused, written) < 1e-13);

    const Tensor dout = shape.merged(bench), dfused = shape.qkv(bench), dwritten = shape.qkv(bench), dp = shape.scores(bench);
    const Tensor dx = shape.split(bench), dq = shape.split(bench), dk = shape.split(bench), dv = shape.split(bench);
    compute(AttentionBackward{qkv, fused, lse, dout, dfused, heads});
    compute(MergeHeads{dx, dout, heads, true});
    compute(BatchedMatmul{dx, v, dp, batch, one, false, true});
    compute(BatchedMatmul{p, dx, dv, batch, one, true, false});
    compute(SoftmaxBackward{p, dp});
    compute(BatchedMatmul{dp, k, dq, batch, root, false, false});
    compute(BatchedMatmul{dp, q, dk, batch, root, true, false});
    compute(SplitHeadsBackward{dq, dk, dv, dwritten, heads});
    CHECK(worst_difference(dfused, dwritten) < 1e-13);
  }
}

TEST_CASE("attention sees nothing of what comes later") {
  Bench bench(5);
  const Shape shape{1, 70, 2, 1, 4};
  const Heads heads = shape.as_heads();
  const Tensor qkv = shape.qkv(bench), out = shape.merged(bench), lse = shape.lse(bench);
  compute(Attention{qkv, out, lse, heads});
  const auto before = Bench::values(out);
  for (std::int64_t token : {69, 65}) {  // the last row, then one in the middle of the last rows that are computed together
    numerics::data<double>(qkv)[token * 16] = 3;
    numerics::data<double>(qkv)[token * 16 + 9] = 40;
    compute(Attention{qkv, out, lse, heads});
    const auto after = Bench::values(out);
    for (std::int64_t i = 0; i < token * 8; ++i) CHECK(after[i] == before[i]);
    CHECK(after[token * 8] != before[token * 8]);
  }
}
