// Block: a transformer's layer, and what it computes again instead of keeping it.
#include <utility>

#include "models/transformer.h"

namespace shardsim {

Block::Block(const Layers& layers, int index, int first)
    : layers_(layers), index_(index), recomputes_(layers.sizes.plan.recompute.whole_block(index)), weights_(first) {
  const TransformerSizes& sizes = layers.sizes;
  ModuleTree& tree = layers.tree;
  const std::string name = "block" + std::to_string(index) + ".";
  module_ = tree.open("block" + std::to_string(index));
  norm1_ = layers.add_norm(weights_, name + "norm1");
  attention_ = tree.open(name + "attention");
  qkv_ = layers.add_linear(weights_, name + "attention.qkv", sizes.hidden, sizes.qkv());
  out_ = layers.add_linear(weights_, name + "attention.out", sizes.heads.count * sizes.head_dim, sizes.hidden);
  if (!sizes.is_llama()) attention_dropout_ = tree.add(name + "attention.dropout");
  tree.close();
  norm2_ = layers.add_norm(weights_, name + "norm2");
  feed_forward_module_ = tree.open(name + "feed_forward");
  if (sizes.is_llama()) feed_forward_.gate = layers.add_linear(weights_, name + "feed_forward.gate", sizes.hidden, sizes.ffn);
  feed_forward_.up = layers.add_linear(weights_, name + "feed_forward.up", sizes.hidden, sizes.ffn);
  // A GELU that is written out is no module: a function, as new_gelu in nanoGPT.
  if (sizes.is_llama() || sizes.plan.fused_activation) feed_forward_.activation = tree.add(name + "feed_forward.activation");
  feed_forward_.down = layers.add_linear(weights_, name + "feed_forward.down", sizes.ffn, sizes.hidden);
  if (!sizes.is_llama()) feed_forward_.dropout = tree.add(name + "feed_forward.dropout");
  tree.close();
  tree.close();
}

Block::Kept Block::compute(const Params& params) const {
  Kept kept;
  kept.norm1 = layers_.norm(params, norm1_, *x_);
  layers_.enter(attention_, Pass::forward);
  kept.attention = attention(layers_, place(of_probabilities), layers_.linear(params, qkv_, *kept.norm1.y, true));
  kept.x1 = layers_.linear(params, out_, *kept.attention.out, true);
  kept.attention_mask = layers_.dropout(attention_dropout_, share(), place(of_attention), *kept.x1, *kept.x1);
  layers_.leave(attention_, Pass::forward);
  layers_.launch(Add{*x_, *kept.x1});
  kept.norm2 = layers_.norm(params, norm2_, *kept.x1);
  layers_.enter(feed_forward_module_, Pass::forward);
  kept.feed_forward = feed_forward(layers_, params, feed_forward_, *kept.norm2.y);
  return kept;
}

Held Block::last_linear(const Params& params, Kept& kept) const {
  Held y = layers_.linear(params, feed_forward_.down, *kept.feed_forward.y, true);
  kept.feed_forward_mask = layers_.dropout(feed_forward_.dropout, share(), place(of_feed_forward), *y, *y);
  layers_.leave(feed_forward_module_, Pass::forward);
  layers_.launch(Add{*kept.x1, *y});
  return y;
}

Held Block::forward(Held x, Tensor flat) {
  const Params params{weights_, flat, layers_.hooks};
  layers_.enter(module_, Pass::forward);
  x_ = std::move(x);
  kept_ = compute(params);
  Held y = last_linear(params, kept_);
  layers_.leave(module_, Pass::forward);
  if (recomputes_) kept_ = {};
  return y;
}

Held Block::backward(Held dy, Tensor flat, Tensor flat_grads, bool accumulate) {
  const Params params{weights_, flat, layers_.hooks};
  const Grads grads{weights_, flat_grads, layers_.hooks};
  layers_.enter(module_, Pass::backward);
  if (recomputes_) {
    kept_ = compute(params);
    // What backward needs last is the last dropout's mask, if there is one.
    if (!layers_.sizes.plan.recompute.early_stop || share() > 0) last_linear(params, kept_);
  }
  Kept kept = std::move(kept_);
  layers_.enter(feed_forward_module_, Pass::backward);
  Held branch = layers_.dropout_backward(feed_forward_.dropout, share(), std::move(kept.feed_forward_mask), *dy);
  Held dx1 = layers_.linear_backward(params, grads, feed_forward_.down, *kept.feed_forward.y, branch ? *branch : *dy, accumulate);
  branch.reset();
  kept.feed_forward.y.reset();
  dx1 = feed_forward_backward(layers_, params, grads, feed_forward_, *kept.norm2.y, std::move(kept.feed_forward), std::move(dx1),
                              accumulate);
  layers_.leave(feed_forward_module_, Pass::backward);
  dx1 = layers_.norm_backward(params, grads, norm2_, *kept.x1, kept.norm2, *dx1, accumulate);
  kept.norm2 = {}, kept.x1.reset();
  layers_.launch(Add{*dy, *dx1});
  dy.reset();
  layers_.enter(attention_, Pass::backward);
  branch = layers_.dropout_backward(attention_dropout_, share(), std::move(kept.attention_mask), *dx1);
  Held dx = layers_.linear_backward(params, grads, out_, *kept.attention.out, branch ? *branch : *dx1, accumulate);
  branch.reset();
  dx = attention_backward(layers_, std::move(kept.attention), std::move(dx));
  dx = layers_.linear_backward(params, grads, qkv_, *kept.norm1.y, *dx, accumulate);
  layers_.leave(attention_, Pass::backward);
  dx = layers_.norm_backward(params, grads, norm1_, *x_, kept.norm1, *dx, accumulate);
  layers_.launch(Add{*dx1, *dx});
  x_.reset();
  layers_.leave(module_, Pass::backward);
  return dx;
}

}  // namespace shardsim
