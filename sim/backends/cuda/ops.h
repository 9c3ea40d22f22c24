// perform(on, op): the kernels of every op, by kind; each kind's bodies are in a header of its own, compiled for the card in the
// .cu of the same name. An op without one does not link.
#pragma once
#include "backends/cuda/executor.h"

namespace shardsim::cuda {

// clang-format off
// products.h
template <class On> void perform(On&, const Matmul&);
template <class On> void perform(On&, const BatchedMatmul&);
// elementwise.h
template <class On> void perform(On&, const Tanh&);
template <class On> void perform(On&, const TanhBackward&);
template <class On> void perform(On&, const Gelu&);
template <class On> void perform(On&, const GeluBackward&);
template <class On> void perform(On&, const Silu&);
template <class On> void perform(On&, const SiluBackward&);
template <class On> void perform(On&, const SwiGlu&);
template <class On> void perform(On&, const SwiGluBackward&);
template <class On> void perform(On&, const Scale&);
template <class On> void perform(On&, const Cube&);
template <class On> void perform(On&, const CubeBackward&);
template <class On> void perform(On&, const Multiply&);
template <class On> void perform(On&, const Dropout&);
template <class On> void perform(On&, const DropoutBackward&);
template <class On> void perform(On&, const Copy&);
template <class On> void perform(On&, const ChunkCopy&);
template <class On> void perform(On&, const Add&);
template <class On> void perform(On&, const Fill&);
// quantize.h
template <class On> void perform(On&, const Quantize&);
template <class On> void perform(On&, const Dequantize&);
template <class On> void perform(On&, const SumQuantized&);
// rows.h
template <class On> void perform(On&, const AddBias&);
template <class On> void perform(On&, const SumRows&);
template <class On> void perform(On&, const Embed&);
template <class On> void perform(On&, const EmbedBackward&);
// norms.h
template <class On> void perform(On&, const Norm&);
template <class On> void perform(On&, const NormBackward&);
// heads.h
template <class On> void perform(On&, const Rotate&);
template <class On> void perform(On&, const SplitHeads&);
template <class On> void perform(On&, const SplitHeadsBackward&);
template <class On> void perform(On&, const MergeHeads&);
template <class On> void perform(On&, const CausalMask&);
// attention.h
template <class On> void perform(On&, const Attention&);
template <class On> void perform(On&, const AttentionBackward&);
// softmaxes.h
template <class On> void perform(On&, const MaskedSoftmax&);
template <class On> void perform(On&, const SoftmaxBackward&);
template <class On> void perform(On&, const LogSoftmax&);
template <class On> void perform(On&, const LogSoftmaxBackward&);
// losses.h
template <class On> void perform(On&, const MseLoss&);
template <class On> void perform(On&, const CrossEntropy&);
template <class On> void perform(On&, const NllLoss&);
// updates.h
template <class On> void perform(On&, const SumSquares&);
template <class On> void perform(On&, const ClipFactor&);
template <class On> void perform(On&, const Adam&);
// clang-format on

}  // namespace shardsim::cuda
