// An op of every kind on small tensors: what tests run through all of them.
#pragma once
#include <vector>

#include "core/op.h"
#include "numerics/buffer.h"

namespace shardsim::numerics_tests {

/// The transformer's ops on two sequences of n tokens: 4 query heads on 2 key/value heads of `width` numbers.
inline void add_attention(std::vector<Op>& ops, Workbench& b, std::int64_t n, Dtype type, std::int64_t width) {
  const Heads heads{dim(4), dim(2), dim(n)};
  auto head_rows = [&] { return b.matrix(2 * 4 * n, width, type); };
  auto tokens = [&](std::int64_t cols) { return b.matrix(2 * n, cols, type); };
  for (bool ta : {false, true})
    for (bool tb : {false, true})
      ops.push_back(BatchedMatmul{ta ? b.matrix(3 * 6, n, type) : b.matrix(3 * n, 6, type),
                                  tb ? b.matrix(3 * n, 6, type) : b.matrix(3 * 6, n, type), b.matrix(3 * n, n, type), dim(3),
                                  dim(6), ta, tb});
  ops.push_back(Rotate{tokens(8 * width), heads, 10000, false});
  const Tensor qkv = tokens(8 * width), out = tokens(4 * width), lse = b.matrix(2 * n, 4);
  ops.push_back(Attention{qkv, out, lse, heads});
  ops.push_back(AttentionBackward{qkv, out, lse, tokens(4 * width), tokens(8 * width), heads});
  ops.push_back(SplitHeads{qkv, head_rows(), head_rows(), head_rows(), heads});
  ops.push_back(SplitHeadsBackward{head_rows(), head_rows(), head_rows(), tokens(8 * width), heads});
  ops.push_back(MergeHeads{head_rows(), tokens(4 * width), heads, false});
  const Tensor mask = b.matrix(n, n, Dtype::uint8), scores = b.matrix(2 * n, n, type);
  ops.push_back(CausalMask{mask});
  ops.push_back(MaskedSoftmax{scores, mask, scores});
  ops.push_back(SoftmaxBackward{scores, b.matrix(2 * n, n, type)});
}

/// Embeddings, norms and losses: 5 tokens, rows of n numbers.
inline void add_rows(std::vector<Op>& ops, Workbench& b, std::int64_t n, Dtype type) {
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
inline std::vector<Op> all_ops(Workbench& b, std::int64_t n, Dtype type) {
  const AdamRule rule{1e-2f, 0.9f, 0.99f, 1e-6f, 0.01f, true};
  std::vector<Op> ops;
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      const Tensor a = ta ? b.matrix(19, n, type) : b.matrix(n, 19, type), c = tb ? b.matrix(n, 19, type) : b.matrix(19, n, type);
      ops.push_back(Matmul{a, c, b.matrix(n, n, type), ta, tb, ta != tb});
    }
  ops.push_back(Matmul{b.matrix(n, 19, type), b.matrix(19, n, type), b.matrix(n, n, type), false, false, false, b.vector(n, type)});
  add_attention(ops, b, n, type, 6);
  add_attention(ops, b, n, type, 16);
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
  const Tensor drops = b.vector(n, Dtype::uint8);
  ops.push_back(Dropout{some(), drops, some(), 0.3, 7});
  ops.push_back(DropoutBackward{some(), drops, some(), 0.3});
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

}  // namespace shardsim::numerics_tests
