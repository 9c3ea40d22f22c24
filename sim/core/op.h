// The closed set of operations that a device can run, as plain structs.
//
// One op has four faces, each an overload in its own folder: touch (touch.h), price (cost/), host arithmetic (numerics/) and
// kernel (backends/cuda/). An op without one of them does not compile.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "core/rules.h"
#include "core/tensor.h"

namespace shardsim {

// An op is one line, and so is a face. Shapes: rows x cols; T tokens are b sequences of s, one behind the other.
// clang-format off
/// out (m x n) = a b [+ bias (n), row by row, in the product's own kernel], with a transposed if ta, b if tb; added to out if
/// accumulate (compute, then add). Sums in fp32.
struct Matmul { Tensor a, b, out; bool ta, tb, accumulate; Tensor bias = {}; };
/// The same for `batch` pairs of equal matrices that stand one below the other in a, b and out: out = a b / sqrt(root's real size).
struct BatchedMatmul { Tensor a, b, out; Dim batch, root; bool ta, tb; };
/// x (m x n) += bias (r x n): row i of x gets row i mod r.
struct AddBias { Tensor bias, x; };
/// out (r x n): row i = sum of the rows i, i + r, ... of x (m x n); added to out if accumulate.
struct SumRows { Tensor x, out; bool accumulate; };
/// out (T x d): row t = row ids[t] of table (V x d).
struct Embed { Tensor ids, table, out; };
/// dtable: row v = sum of the rows of dout whose id is v; added to dtable if accumulate. Every row of dtable is written.
struct EmbedBackward { Tensor ids, dout, dtable; bool accumulate; };
/// y = x / (size of x's rows) * gain [+ bias]. With a bias it is LayerNorm: the row's mean is taken off first, size is the standard
/// deviation, stats (T x 2, fp32) = {mean, 1 / size}. Without, RMSNorm: root mean square, stats (T x 1). Size^2 has eps added.
struct Norm { Tensor x, gain, bias, y, stats; float eps; };
/// dx, and dgain [, dbias], which are added to if accumulate.
struct NormBackward { Tensor x, gain, stats, dy, dx, dgain, dbias; bool accumulate; };
/// Heads of an attention: query heads, key/value heads, tokens of a sequence. A row of qkv is [q heads | k heads | v heads].
struct Heads { Dim count, kv, sequence; };
/// Rotary positions (RoPE) on q and k inside qkv, in place; pairs (i, i + h/2) turn by t base^(-2i/h). `inverse` turns back.
struct Rotate { Tensor qkv; Heads heads; double base; bool inverse; };
/// out (T x heads h) = causal softmax(q k' / sqrt(h)) v without storing scores (FlashAttention); lse (T x heads, fp32) is kept.
struct Attention { Tensor qkv, out, lse; Heads heads; };
struct AttentionBackward { Tensor qkv, out, lse, dout, dqkv; Heads heads; };
/// q, k, v (b heads s x h each): the heads of qkv as contiguous matrices; key/value heads are repeated for their query heads.
struct SplitHeads { Tensor qkv, q, k, v; Heads heads; };
/// dqkv from dq, dk, dv; repeated heads are summed.
struct SplitHeadsBackward { Tensor dq, dk, dv, dqkv; Heads heads; };
/// out (T x heads h) from x (b heads s x h), or x from out if inverse.
struct MergeHeads { Tensor x, out; Heads heads; bool inverse; };
/// mask (s x s) = 1 where a token may look (its past and itself), else 0.
struct CausalMask { Tensor mask; };
/// y = softmax of each row of x (n s x s) where mask (s x s) allows it, else 0.
struct MaskedSoftmax { Tensor x, mask, y; };
/// dy = y (dy - sum of dy y), row by row: the gradient before a softmax, in place.
struct SoftmaxBackward { Tensor y, dy; };
/// y = tanh(x), element by element; x and y may be the same.
struct Tanh { Tensor x, y; };
/// dy *= 1 - y^2: the gradient before a tanh, in place, from the tanh's output.
struct TanhBackward { Tensor y, dy; };
/// y = x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2.
struct Gelu { Tensor x, y; };
/// dy becomes dx, in place.
struct GeluBackward { Tensor x, dy; };
/// y = x / (1 + exp(-x)).
struct Silu { Tensor x, y; };
struct SiluBackward { Tensor x, dy; };
/// y = silu(gate) up.
struct SwiGlu { Tensor gate, up, y; };
struct SwiGluBackward { Tensor gate, up, dy, dgate, dup; };
/// y = factor x + shift; x and y may be the same.
struct Scale { Tensor x, y; double factor, shift; };
/// y = x^3.
struct Cube { Tensor x, y; };
/// dy *= 3 x^2.
struct CubeBackward { Tensor x, dy; };
/// y = a b, element by element; y may be a or b.
struct Multiply { Tensor a, b, y; };
/// y = x mask / (1 - share); the mask is drawn first (is_dropped of core/draw.h, by the element's position): of `share` of the
/// elements it is 0, of the others 1. x and y may be the same.
struct Dropout { Tensor x, mask, y; double share; std::uint64_t key; };
/// dx = dy mask / (1 - share); dx may be dy.
struct DropoutBackward { Tensor dy, mask, dx; double share; };
/// loss (1) += mean (pred - target)^2 / micro_batches; dpred = 2 (pred - target) / elements [* scaler's scale].
struct MseLoss { Tensor pred, target, dpred, loss, scaler; int micro_batches; };
/// loss (1) += mean of -log softmax(logits (T x V))[target] / micro_batches; dlogits = (softmax - onehot) / T [* scaler's scale],
/// in one kernel; dlogits may be logits.
struct CrossEntropy { Tensor logits, targets, dlogits, loss, scaler; int micro_batches; };
/// y = log softmax of each row of x.
struct LogSoftmax { Tensor x, y; };
/// The loss of log-probabilities, as above; dlogp = -onehot / T [* scaler's scale].
struct NllLoss { Tensor logp, targets, dlogp, loss, scaler; int micro_batches; };
/// dx = dy - softmax * sum of dy, row by row, from y = log softmax.
struct LogSoftmaxBackward { Tensor y, dy, dx; };
/// to = from, converted to the type of `to`. `joins`: a part of the kernel that the copy before it launched (PyTorch's foreach).
struct Copy { Tensor from, to; bool joins = false; };
/// `count` elements that lie at `in_whole` of one tensor and at `in_flat` of another.
struct Chunk { Dim in_whole, in_flat, count; };
/// Shared, so that they live as long as the ops that use them.
using Chunks = std::shared_ptr<const std::vector<Chunk>>;
inline Chunks shared(std::vector<Chunk> chunks) { return std::make_shared<const std::vector<Chunk>>(std::move(chunks)); }
/// whole = its chunks, from all over flat; or, if `scatters`, the chunks of flat = factor x whole. Converts and joins as Copy does.
/// (PyTorch: split_with_sizes_copy, _chunk_cat.)
struct ChunkCopy { Tensor flat, whole; Chunks chunks; bool scatters; double factor; bool joins; };
/// q (int8) = x / scale, rounded to -128 ... 127; scale (fp32) = largest |x| / 128 of each of the groups of neighbours, all of one
/// size, that x is cut into. scales is charged one number per group; of real numbers it has one per element, its group's. With 4
/// bits it is 8 in place of 128, and q is charged a byte for two. Joins as Copy does.
struct Quantize { Tensor x, q, scales; int bits = 8; bool joins = false; };
/// x = scale q.
struct Dequantize { Tensor q, scales, x; };
/// The sum of `parts` equal parts of scale q, quantized again into groups of sum_q.
struct SumQuantized { Tensor q, scales, sum_q, sum_scales; int parts, bits; };
/// y += x.
struct Add { Tensor x, y; };
/// x = value.
struct Fill { Tensor x; float value; };
/// out (1) += sum of x^2.
struct SumSquares { Tensor x, out; };
/// What the norm decides, without the host: norm = unscale / scale * sqrt(sum of squares); factor (2) = {multiplier, skips}:
/// multiplier = (norm > limit > 0 ? limit / norm : 1) / scale; skips = 1 where the sum is not finite and the rule is dynamic. Then
/// the scaler (3) = {scale, good steps, updates} moves on. Squares are summed in the ring's order; without a scaler, scale = 1.
struct ClipFactor { Tensor squares, factor, scaler; float limit, unscale; LossScale rule; };
/// One Adam step t (from 1) on a slice: g = grad * unscale * factor's multiplier, moments and master in fp32, bias correction, eps
/// outside the root. `master` is the parameter itself in fp32; otherwise `param` receives the master, rounded. Nothing is written
/// where factor skips; with a scaler, t is its count of updates. The same arithmetic for all of the rule's implementations.
/// `joins`: a further tensor of the kernels that the Adam before it launched (PyTorch's fused and foreach walk lists of tensors).
struct Adam { Tensor grad, factor, scaler, master, m, v, param; AdamRule rule; float unscale; int t; bool joins = false; };

using Op = std::variant<Matmul, BatchedMatmul, AddBias, SumRows, Embed, EmbedBackward, Norm, NormBackward, Rotate, Attention,
                        AttentionBackward, SplitHeads, SplitHeadsBackward, MergeHeads, CausalMask, MaskedSoftmax, SoftmaxBackward,
                        Tanh, TanhBackward, Gelu, GeluBackward, Silu, SiluBackward, SwiGlu, SwiGluBackward, Scale, Cube,
                        CubeBackward, Multiply, Dropout, DropoutBackward, MseLoss, CrossEntropy, LogSoftmax, NllLoss,
                        LogSoftmaxBackward, Copy, ChunkCopy, Quantize, Dequantize, SumQuantized, Add, Fill, SumSquares,
                        ClipFactor, Adam>;
// clang-format on
const char* name_of(const Op&);
const char* op_name(std::size_t index);  ///< by position in Op

}  // namespace shardsim
