// Feed-forward: GELU between two linears (GPT-2), or SwiGLU over two (Llama), each in one kernel or written out.
#include <utility>

#include "models/layers.h"

namespace shardsim {
namespace {

constexpr double cubic = 0.044715, root = 0.7978845608028654;  // sqrt(2 / pi)

/// 0.5 x (1 + tanh(root (x + cubic x^3))), operation by operation; keeps tanh, x / 2 and 1 + tanh, as autograd does.
void written_out_gelu(const Layers& layers, FeedForwardKept& kept) {
  const Tensor x = *kept.up;
  const Held inner = layers.temporary(x.rows, x.cols);
  layers.launch(Cube{x, *inner});
  layers.launch(Scale{*inner, *inner, cubic, 0});
  layers.launch(Add{x, *inner});
  layers.launch(Scale{*inner, *inner, root, 0});
  kept.a = layers.kept(x.rows, x.cols);
  layers.launch(Tanh{*inner, *kept.a});
  kept.b = layers.kept(x.rows, x.cols);
  layers.launch(Scale{x, *kept.b, 0.5, 0});
  kept.c = layers.kept(x.rows, x.cols);
  layers.launch(Scale{*kept.a, *kept.c, 1, 1});
  kept.y = layers.kept(x.rows, x.cols);
  layers.launch(Multiply{*kept.b, *kept.c, *kept.y});
}

Held written_out_gelu_backward(const Layers& layers, FeedForwardKept& kept, Held dy) {
  Held dx = layers.temporary(dy->rows, dy->cols);
  layers.launch(Multiply{*dy, *kept.c, *dx});  // of x / 2
  layers.launch(Scale{*dx, *dx, 0.5, 0});
  layers.launch(Multiply{*dy, *kept.b, *dy});  // of 1 + tanh, and so of tanh
  kept.b.reset(), kept.c.reset();
  layers.launch(TanhBackward{*kept.a, *dy});
  kept.a.reset();
  layers.launch(Scale{*dy, *dy, root, 0});
  layers.launch(Add{*dy, *dx});  // of x inside
  layers.launch(Scale{*dy, *dy, cubic, 0});
  layers.launch(CubeBackward{*kept.up, *dy});
  layers.launch(Add{*dy, *dx});
  return dx;
}

}  // namespace

FeedForwardKept feed_forward(const Layers& layers, const Params& params, const FeedForwardAt& at, Tensor x) {
  const bool fused = layers.sizes.plan.fused_activation;
  FeedForwardKept kept;
  kept.up = layers.linear(params, at.up, x, true);
  const Tensor up = *kept.up;
  if (layers.sizes.is_llama()) kept.gate = layers.linear(params, at.gate, x, true);
  layers.enter(at.activation, Pass::forward);
  if (layers.sizes.is_llama()) {
    if (!fused) {
      kept.a = layers.kept(up.rows, up.cols);
      layers.launch(Silu{*kept.gate, *kept.a});
    }
    kept.y = layers.kept(up.rows, up.cols);
    if (fused) layers.launch(SwiGlu{*kept.gate, up, *kept.y});
    else layers.launch(Multiply{*kept.a, up, *kept.y});
  } else if (fused) {
    kept.y = layers.kept(up.rows, up.cols);
    layers.launch(Gelu{up, *kept.y});
  } else {
    written_out_gelu(layers, kept);
  }
  layers.leave(at.activation, Pass::forward);
  return kept;
}

Held feed_forward_backward(const Layers& layers, const Params& params, const Grads& grads, const FeedForwardAt& at, Tensor x,
                           FeedForwardKept kept, Held dy, bool accumulate) {
  const bool fused = layers.sizes.plan.fused_activation;
  layers.enter(at.activation, Pass::backward);
  if (!layers.sizes.is_llama()) {
    if (fused) layers.launch(GeluBackward{*kept.up, *dy});
    else dy = written_out_gelu_backward(layers, kept, std::move(dy));
    kept.up.reset();
    layers.leave(at.activation, Pass::backward);
    return layers.linear_backward(params, grads, at.up, x, *dy, accumulate);
  }
  Held dgate = layers.temporary(dy->rows, dy->cols);
  if (fused) {
    Held dup = layers.temporary(dy->rows, dy->cols);
    layers.launch(SwiGluBackward{*kept.gate, *kept.up, *dy, *dgate, *dup});
    dy = std::move(dup);
  } else {
    layers.launch(Multiply{*dy, *kept.up, *dgate});
    layers.launch(SiluBackward{*kept.gate, *dgate});
    layers.launch(Multiply{*dy, *kept.a, *dy});
  }
  kept = {};
  layers.leave(at.activation, Pass::backward);
  Held dx = layers.linear_backward(params, grads, at.up, x, *dy, accumulate);
  dy.reset();
  const Held of_gate = layers.linear_backward(params, grads, at.gate, x, *dgate, accumulate);
  layers.launch(Add{*of_gate, *dx});
  return dx;
}

}  // namespace shardsim
