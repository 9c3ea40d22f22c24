// The closed set of operations that a device can run, as plain structs, and `touch`: which tensors each reads and writes.
//
// One op has four faces, each an overload in its own folder: touch (here), price (cost/), host arithmetic (numerics/) and
// kernel (backends/cuda/). An op without one of them does not compile.
#pragma once
#include <variant>

#include "core/rules.h"
#include "core/tensor.h"

namespace shardsim {

// An op is one line, and so is a face.
// clang-format off
/// out (m x n) = a b, with a transposed if ta, b if tb; added to out if accumulate (compute, then add). Sums in fp32.
struct Matmul { Tensor a, b, out; bool ta, tb, accumulate; };
/// x (m x n) += bias (n), row by row.
struct AddBias { Tensor bias, x; };
/// out (n) = sum of x (m x n) over its rows; added to out if accumulate.
struct SumRows { Tensor x, out; bool accumulate; };
/// y = tanh(x), element by element; x and y may be the same.
struct Tanh { Tensor x, y; };
/// dy *= 1 - y^2: the gradient before a tanh, in place, from the tanh's output.
struct TanhBackward { Tensor y, dy; };
/// loss (1) += mean (pred - target)^2 / micro_batches; dpred = 2 (pred - target) / elements [* scaler's scale].
struct MseLoss { Tensor pred, target, dpred, loss, scaler; int micro_batches; };
/// to = from, converted to the type of `to`.
struct Copy { Tensor from, to; };
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
/// where factor skips; with a scaler, t is its count of updates.
struct Adam { Tensor grad, factor, scaler, master, m, v, param; AdamRule rule; float unscale; int t; };

using Op = std::variant<Matmul, AddBias, SumRows, Tanh, TanhBackward, MseLoss, Copy, Add, Fill, SumSquares, ClipFactor, Adam>;
const char* name_of(const Op&);
const char* op_name(std::size_t index);  ///< by position in Op

// touch(op, f) calls f(tensor, reads, writes) for every tensor of the op.
template <class F> void touch(const Matmul& o, F f) { f(o.a, true, false); f(o.b, true, false); f(o.out, o.accumulate, true); }
template <class F> void touch(const AddBias& o, F f) { f(o.bias, true, false); f(o.x, true, true); }
template <class F> void touch(const SumRows& o, F f) { f(o.x, true, false); f(o.out, o.accumulate, true); }
template <class F> void touch(const Tanh& o, F f) { f(o.x, true, false); f(o.y, false, true); }
template <class F> void touch(const TanhBackward& o, F f) { f(o.y, true, false); f(o.dy, true, true); }
template <class F> void touch(const MseLoss& o, F f) {
  f(o.pred, true, false); f(o.target, true, false); f(o.dpred, false, true); f(o.loss, true, true);
  if (o.scaler) f(o.scaler, true, false);
}
template <class F> void touch(const Copy& o, F f) { f(o.from, true, false); f(o.to, false, true); }
template <class F> void touch(const Add& o, F f) { f(o.x, true, false); f(o.y, true, true); }
template <class F> void touch(const Fill& o, F f) { f(o.x, false, true); }
template <class F> void touch(const SumSquares& o, F f) { f(o.x, true, false); f(o.out, true, true); }
template <class F> void touch(const ClipFactor& o, F f) {
  f(o.squares, true, false); f(o.factor, false, true);
  if (o.scaler) f(o.scaler, true, true);
}
template <class F> void touch(const Adam& o, F f) {
  f(o.grad, true, false); f(o.master, true, true); f(o.m, true, true); f(o.v, true, true); f(o.param, false, true);
  if (o.factor) f(o.factor, true, false);
  if (o.scaler) f(o.scaler, true, false);
}
// clang-format on

}  // namespace shardsim
