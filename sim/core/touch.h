// touch(op, f): which tensors an op reads and writes. The face of an op that the hazard checker sees.
#pragma once
#include "core/op.h"

namespace shardsim {

// touch(op, f) calls f(tensor, reads, writes) for every tensor of the op.
// clang-format off
/// Tensors that an op may lack are passed over.
template <class F> void reads(F f, const auto&... tensors) { (void(tensors && (f(tensors, true, false), true)), ...); }
template <class F> void writes(F f, const auto&... tensors) { (void(tensors && (f(tensors, false, true), true)), ...); }
template <class F> void changes(F f, const auto&... tensors) { (void(tensors && (f(tensors, true, true), true)), ...); }
template <class F> void adds_or_writes(F f, bool adds, const auto&... tensors) {
  adds ? changes(f, tensors...) : writes(f, tensors...);
}

template <class F> void touch(const Matmul& o, F f) { reads(f, o.a, o.b, o.bias); adds_or_writes(f, o.accumulate, o.out); }
template <class F> void touch(const BatchedMatmul& o, F f) { reads(f, o.a, o.b); writes(f, o.out); }
template <class F> void touch(const AddBias& o, F f) { reads(f, o.bias); changes(f, o.x); }
template <class F> void touch(const SumRows& o, F f) { reads(f, o.x); adds_or_writes(f, o.accumulate, o.out); }
template <class F> void touch(const Embed& o, F f) { reads(f, o.ids, o.table); writes(f, o.out); }
template <class F> void touch(const EmbedBackward& o, F f) { reads(f, o.ids, o.dout); adds_or_writes(f, o.accumulate, o.dtable); }
template <class F> void touch(const Norm& o, F f) { reads(f, o.x, o.gain, o.bias); writes(f, o.y, o.stats); }
template <class F> void touch(const NormBackward& o, F f) {
  reads(f, o.x, o.gain, o.stats, o.dy); writes(f, o.dx); adds_or_writes(f, o.accumulate, o.dgain, o.dbias);
}
template <class F> void touch(const Rotate& o, F f) { changes(f, o.qkv); }
template <class F> void touch(const Attention& o, F f) { reads(f, o.qkv); writes(f, o.out, o.lse); }
template <class F> void touch(const AttentionBackward& o, F f) { reads(f, o.qkv, o.out, o.lse, o.dout); writes(f, o.dqkv); }
template <class F> void touch(const SplitHeads& o, F f) { reads(f, o.qkv); writes(f, o.q, o.k, o.v); }
template <class F> void touch(const SplitHeadsBackward& o, F f) { reads(f, o.dq, o.dk, o.dv); writes(f, o.dqkv); }
template <class F> void touch(const MergeHeads& o, F f) { reads(f, o.inverse ? o.out : o.x); writes(f, o.inverse ? o.x : o.out); }
template <class F> void touch(const CausalMask& o, F f) { writes(f, o.mask); }
template <class F> void touch(const MaskedSoftmax& o, F f) { reads(f, o.x, o.mask); writes(f, o.y); }
template <class F> void touch(const SoftmaxBackward& o, F f) { reads(f, o.y); changes(f, o.dy); }
template <class F> void touch(const Tanh& o, F f) { reads(f, o.x); writes(f, o.y); }
template <class F> void touch(const TanhBackward& o, F f) { reads(f, o.y); changes(f, o.dy); }
template <class F> void touch(const Gelu& o, F f) { reads(f, o.x); writes(f, o.y); }
template <class F> void touch(const GeluBackward& o, F f) { reads(f, o.x); changes(f, o.dy); }
template <class F> void touch(const Silu& o, F f) { reads(f, o.x); writes(f, o.y); }
template <class F> void touch(const SiluBackward& o, F f) { reads(f, o.x); changes(f, o.dy); }
template <class F> void touch(const SwiGlu& o, F f) { reads(f, o.gate, o.up); writes(f, o.y); }
template <class F> void touch(const SwiGluBackward& o, F f) { reads(f, o.gate, o.up, o.dy); writes(f, o.dgate, o.dup); }
template <class F> void touch(const Scale& o, F f) { reads(f, o.x); writes(f, o.y); }
template <class F> void touch(const Cube& o, F f) { reads(f, o.x); writes(f, o.y); }
template <class F> void touch(const CubeBackward& o, F f) { reads(f, o.x); changes(f, o.dy); }
template <class F> void touch(const Multiply& o, F f) { reads(f, o.a, o.b); writes(f, o.y); }
template <class F> void touch(const Dropout& o, F f) { reads(f, o.x); writes(f, o.mask, o.y); }
template <class F> void touch(const DropoutBackward& o, F f) { reads(f, o.dy, o.mask); writes(f, o.dx); }
template <class F> void touch(const MseLoss& o, F f) {
  reads(f, o.pred, o.target, o.scaler); writes(f, o.dpred); changes(f, o.loss);
}
template <class F> void touch(const CrossEntropy& o, F f) {
  reads(f, o.logits, o.targets, o.scaler); writes(f, o.dlogits); changes(f, o.loss);
}
template <class F> void touch(const LogSoftmax& o, F f) { reads(f, o.x); writes(f, o.y); }
template <class F> void touch(const NllLoss& o, F f) {
  reads(f, o.logp, o.targets, o.scaler); writes(f, o.dlogp); changes(f, o.loss);
}
template <class F> void touch(const LogSoftmaxBackward& o, F f) { reads(f, o.y, o.dy); writes(f, o.dx); }
template <class F> void touch(const Copy& o, F f) { reads(f, o.from); writes(f, o.to); }
template <class F> void touch(const ChunkCopy& o, F f) {
  reads(f, o.scatters ? o.whole : o.flat); writes(f, o.scatters ? o.flat : o.whole);
}
template <class F> void touch(const Quantize& o, F f) { reads(f, o.x); writes(f, o.q, o.scales); }
template <class F> void touch(const Dequantize& o, F f) { reads(f, o.q, o.scales); writes(f, o.x); }
template <class F> void touch(const SumQuantized& o, F f) { reads(f, o.q, o.scales); writes(f, o.sum_q, o.sum_scales); }
template <class F> void touch(const Add& o, F f) { reads(f, o.x); changes(f, o.y); }
template <class F> void touch(const Fill& o, F f) { writes(f, o.x); }
template <class F> void touch(const SumSquares& o, F f) { reads(f, o.x); changes(f, o.out); }
template <class F> void touch(const ClipFactor& o, F f) { reads(f, o.squares); writes(f, o.factor); changes(f, o.scaler); }
template <class F> void touch(const Adam& o, F f) {
  reads(f, o.grad, o.factor, o.scaler); changes(f, o.master, o.m, o.v); writes(f, o.param);
}
// clang-format on

}  // namespace shardsim
