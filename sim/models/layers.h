// Layers: what the modules of a transformer are made of (linear, norm, attention, feed-forward), forward and backward, in ops.
//
// A forward returns what its backward needs as `Kept` structs of tensors that free themselves: that is the activation ledger.
#pragma once
#include <string>
#include <vector>

#include "core/device.h"
#include "core/model.h"
#include "models/transformer_sizes.h"

namespace shardsim {

/// A module's weights by position, as views of its flat parameters or gradients. Position -1 is a weight that the module lacks.
class Weights {
 public:
  int add(const std::string& name, Dim rows, Dim cols);
  const Layout& layout() const { return layout_; }
  Tensor operator()(Tensor flat, int at) const;

 private:
  Layout layout_;
  std::vector<Dim> begins_;
};

/// A module's parameters or gradients, seen through its Weights.
struct Flat {
  const Weights& weights;
  Tensor flat;
  Tensor operator[](int at) const { return weights(flat, at); }
};

struct LinearAt {
  int weight = -1, bias = -1;
};
struct NormAt {
  int gain = -1, bias = -1;
};
struct NormKept {
  Held y, stats;
};

struct Layers {
  Device& device;
  const TransformerSizes& sizes;

  /// rows x cols of the model's type: kept for the backward pass, or for the moment.
  Held kept(Dim rows, Dim cols) const { return kept(rows, cols, sizes.type); }
  Held kept(Dim rows, Dim cols, Dtype type) const;
  Held temporary(Dim rows, Dim cols) const { return temporary(rows, cols, sizes.type); }
  Held temporary(Dim rows, Dim cols, Dtype type) const;
  void launch(const Op& op) const { device.launch(Lane::compute, op); }

  LinearAt add_linear(Weights&, const std::string& name, Dim in, Dim out) const;
  NormAt add_norm(Weights&, const std::string& name) const;

  /// y = x W [+ b]; `keeps`: y is kept.
  Held linear(const Flat& params, LinearAt, Tensor x, bool keeps) const;
  /// Writes (or adds) the gradients of W and b; returns dx.
  Held linear_backward(const Flat& params, const Flat& grads, LinearAt, Tensor x, Tensor dy, bool accumulate) const;
  NormKept norm(const Flat& params, NormAt, Tensor x) const;
  Held norm_backward(const Flat& params, const Flat& grads, NormAt, Tensor x, const NormKept&, Tensor dy, bool accumulate) const;
};

struct AttentionKept {
  Held out;
  Held qkv, lse;                      ///< of a flash kernel
  Held q, k, v, mask, probabilities;  ///< written out
};
/// From the rows [q heads | k heads | v heads] to the heads' outputs, side by side.
AttentionKept attention(const Layers&, Held qkv);
/// Returns dqkv.
Held attention_backward(const Layers&, AttentionKept, Held dout);

struct FeedForwardAt {
  LinearAt up, gate, down;
};
struct FeedForwardKept {
  Held up, gate;  ///< what goes into the activation
  Held a, b, c;   ///< inside a written-out activation
  Held y;         ///< what goes into the last linear
};
/// All but the last linear.
FeedForwardKept feed_forward(const Layers&, const Flat& params, const FeedForwardAt&, Tensor x);
/// From the gradient of y to that of x.
Held feed_forward_backward(const Layers&, const Flat& params, const Flat& grads, const FeedForwardAt&, Tensor x, FeedForwardKept,
                           Held dy, bool accumulate);

}  // namespace shardsim
