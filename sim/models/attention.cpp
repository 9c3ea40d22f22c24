// Attention: as one flash kernel, or written out as products around a softmax whose probabilities stay in memory.
#include <utility>

#include "models/layers.h"

namespace shardsim {
namespace {

Dim all_heads(const TransformerSizes& sizes) { return sizes.sequences * sizes.heads.count; }

/// softmax(q k' / sqrt(h)), masked, as a framework writes it out: scores, mask, softmax.
void make_probabilities(const Layers& layers, AttentionKept& kept) {
  const TransformerSizes& sizes = layers.sizes;
  const Dim s = sizes.heads.sequence, heads = all_heads(sizes);
  const Held scores = layers.temporary(heads * s, s);
  layers.launch(BatchedMatmul{*kept.q, *kept.k, *scores, heads, sizes.head_dim, false, true});
  kept.mask = layers.kept(s, s, Dtype::uint8);
  layers.launch(CausalMask{*kept.mask});
  kept.probabilities = layers.kept(heads * s, s);
  layers.launch(MaskedSoftmax{*scores, *kept.mask, *kept.probabilities});
  const double share = sizes.plan.attention_dropout;
  if (share == 0) return;
  kept.dropped = layers.kept(heads * s, s);
  kept.dropout_mask = layers.dropout(-1, share, kept.place, *kept.probabilities, *kept.dropped);
}

/// What v is mixed by.
Tensor weights_of(const AttentionKept& kept) { return kept.dropped ? *kept.dropped : *kept.probabilities; }

void forget_probabilities(AttentionKept& kept) {
  kept.mask.reset(), kept.probabilities.reset(), kept.dropout_mask.reset(), kept.dropped.reset();
}

AttentionKept explicit_attention(const Layers& layers, int place, Held qkv) {
  const TransformerSizes& sizes = layers.sizes;
  const Dim heads = all_heads(sizes), rows = heads * sizes.heads.sequence;
  AttentionKept kept;
  kept.place = place;
  kept.q = layers.kept(rows, sizes.head_dim);
  kept.k = layers.kept(rows, sizes.head_dim);
  kept.v = layers.kept(rows, sizes.head_dim);
  layers.launch(SplitHeads{*qkv, *kept.q, *kept.k, *kept.v, sizes.heads});
  make_probabilities(layers, kept);
  const Held mixed = layers.temporary(rows, sizes.head_dim);
  layers.launch(BatchedMatmul{weights_of(kept), *kept.v, *mixed, heads, one, false, false});
  kept.out = layers.kept(sizes.tokens(), sizes.heads.count * sizes.head_dim);
  layers.launch(MergeHeads{*mixed, *kept.out, sizes.heads, false});
  if (sizes.plan.recompute.kind == Recompute::Kind::selective) forget_probabilities(kept);
  return kept;
}

Held explicit_backward(const Layers& layers, AttentionKept kept, Held dout) {
  const TransformerSizes& sizes = layers.sizes;
  const Dim heads = all_heads(sizes), s = sizes.heads.sequence, rows = heads * s, h = sizes.head_dim;
  if (!kept.probabilities) make_probabilities(layers, kept);
  const Held dmixed = layers.temporary(rows, h);
  layers.launch(MergeHeads{*dmixed, *dout, sizes.heads, true});
  dout.reset();
  const Held dv = layers.temporary(rows, h), dscores = layers.temporary(rows, s);
  layers.launch(BatchedMatmul{weights_of(kept), *dmixed, *dv, heads, one, true, false});
  layers.launch(BatchedMatmul{*dmixed, *kept.v, *dscores, heads, one, false, true});
  if (kept.dropped) layers.launch(DropoutBackward{*dscores, *kept.dropout_mask, *dscores, sizes.plan.attention_dropout});
  layers.launch(SoftmaxBackward{*kept.probabilities, *dscores});
  forget_probabilities(kept);
  const Held dq = layers.temporary(rows, h), dk = layers.temporary(rows, h);
  layers.launch(BatchedMatmul{*dscores, *kept.k, *dq, heads, h, false, false});
  layers.launch(BatchedMatmul{*dscores, *kept.q, *dk, heads, h, true, false});
  Held dqkv = layers.temporary(sizes.tokens(), sizes.qkv());
  layers.launch(SplitHeadsBackward{*dq, *dk, *dv, *dqkv, sizes.heads});
  return dqkv;
}

}  // namespace

AttentionKept attention(const Layers& layers, int place, Held qkv) {
  const TransformerSizes& sizes = layers.sizes;
  if (sizes.is_llama()) layers.launch(Rotate{*qkv, sizes.heads, sizes.rope_base, false});
  if (!sizes.plan.flash_attention) return explicit_attention(layers, place, std::move(qkv));
  AttentionKept kept;
  kept.place = place;
  kept.qkv = std::move(qkv);
  kept.out = layers.kept(sizes.tokens(), sizes.heads.count * sizes.head_dim);
  kept.lse = layers.kept(sizes.tokens(), sizes.heads.count, Dtype::fp32);
  layers.launch(Attention{*kept.qkv, *kept.out, *kept.lse, sizes.heads});
  return kept;
}

Held attention_backward(const Layers& layers, AttentionKept kept, Held dout) {
  const TransformerSizes& sizes = layers.sizes;
  Held dqkv;
  if (sizes.plan.flash_attention) {
    dqkv = layers.temporary(sizes.tokens(), sizes.qkv());
    layers.launch(AttentionBackward{*kept.qkv, *kept.out, *kept.lse, *dout, *dqkv, sizes.heads});
  } else {
    dqkv = explicit_backward(layers, std::move(kept), std::move(dout));
  }
  if (sizes.is_llama()) layers.launch(Rotate{*dqkv, sizes.heads, sizes.rope_base, true});
  return dqkv;
}

}  // namespace shardsim
