// Layers: what the modules of a transformer are made of (linear, norm, attention, feed-forward), forward and backward, in ops.
//
// A forward returns what its backward needs as `Kept` structs of tensors that free themselves: that is the activation ledger.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/model.h"
#include "models/transformer_sizes.h"

namespace shardsim {

/// The modules of a model in the order in which they are made, parents first.
class ModuleTree {
 public:
  /// Makes a module inside the open one.
  int add(const std::string& name) {
    modules_.push_back({name, open_, {}});
    return int(modules_.size()) - 1;
  }
  /// The same, and opens it: what is added next stands inside.
  int open(const std::string& name) { return open_ = add(name); }
  void close() { open_ = modules_[std::size_t(open_)].parent; }
  void own(int module, int parameter) { modules_[std::size_t(module)].parameters.push_back(parameter); }
  const std::vector<ModuleNode>& modules() const { return modules_; }

 private:
  std::vector<ModuleNode> modules_;
  int open_ = -1;
};

/// A module's weights by position, as views of its flat parameters or gradients. Position -1 is a weight that the module lacks.
class Weights {
 public:
  /// `first`: how many weights of the model stand before these.
  explicit Weights(int first = 0) : first_(first) {}
  int global(int at) const { return first_ + at; }
  int next() const { return first_ + int(layout_.size()); }
  int add(const std::string& name, Dim rows, Dim cols);
  const Layout& layout() const { return layout_; }
  Tensor operator()(Tensor flat, int at) const;

 private:
  int first_;
  Layout layout_;
  std::vector<Dim> begins_;
};

/// A module's parameters, seen through its Weights: views of a flat tensor, or what the hooks say.
struct Params {
  const Weights& weights;
  Tensor flat;
  ModuleHooks* hooks;
  Tensor operator[](int at) const {
    if (at < 0) return {};
    return hooks ? hooks->parameter(weights.global(at)) : weights(flat, at);
  }
};
/// The same of its gradients; `ready` says that all of one is written.
struct Grads {
  const Weights& weights;
  Tensor flat;
  ModuleHooks* hooks;
  Tensor operator[](int at) const {
    if (at < 0) return {};
    return hooks ? hooks->gradient(weights.global(at)) : weights(flat, at);
  }
  void ready(int at) const {
    if (hooks && at >= 0) hooks->gradient_ready(weights.global(at));
  }
};

struct LinearAt {
  int weight = -1, bias = -1, module = -1;
};
struct NormAt {
  int gain = -1, bias = -1, module = -1;
};
struct NormKept {
  Held y, stats;
};

enum class Pass : std::uint8_t { forward, backward };

struct Layers {
  Device& device;
  const TransformerSizes& sizes;
  ModuleTree& tree;
  ModuleHooks* hooks = nullptr;
  std::uint64_t micro_batch_key = 0;  ///< of the masks of this rank's micro-batch

  /// A module begins or ends its part of a pass. -1: no module, but code in the one around it.
  void enter(int module, Pass pass) const {
    if (hooks && module >= 0) pass == Pass::forward ? hooks->pre_forward(module) : hooks->pre_backward(module);
  }
  void leave(int module, Pass pass) const {
    if (hooks && module >= 0) pass == Pass::forward ? hooks->post_forward(module) : hooks->post_backward(module);
  }
  /// y = x, of which `share` is dropped (0: nothing is launched); returns the mask. `place` tells a model's dropouts apart.
  Held dropout(int module, double share, int place, Tensor x, Tensor y) const;
  /// The gradient of x from that of y, which stays as it is; empty if nothing was dropped.
  Held dropout_backward(int module, double share, Held mask, Tensor dy) const;

  /// rows x cols of the model's type: kept for the backward pass, or for the moment.
  Held kept(Dim rows, Dim cols) const { return kept(rows, cols, sizes.type); }
  Held kept(Dim rows, Dim cols, Dtype type) const;
  Held temporary(Dim rows, Dim cols) const { return temporary(rows, cols, sizes.type); }
  Held temporary(Dim rows, Dim cols, Dtype type) const;
  void launch(const Op& op) const { device.launch(Lane::compute, op); }

  LinearAt add_linear(Weights&, const std::string& name, Dim in, Dim out) const;
  NormAt add_norm(Weights&, const std::string& name) const;

  /// y = x W [+ b]; `keeps`: y is kept.
  Held linear(const Params& params, LinearAt, Tensor x, bool keeps) const;
  /// Writes (or adds) the gradients of W and b; returns dx.
  Held linear_backward(const Params& params, const Grads& grads, LinearAt, Tensor x, Tensor dy, bool accumulate) const;
  NormKept norm(const Params& params, NormAt, Tensor x) const;
  Held norm_backward(const Params& params, const Grads& grads, NormAt, Tensor x, const NormKept&, Tensor dy, bool accumulate) const;
};

struct AttentionKept {
  int place = 0;  ///< of its dropout
  Held out;
  Held qkv, lse;                                             ///< of a flash kernel
  Held q, k, v, mask, probabilities, dropout_mask, dropped;  ///< written out
};
/// From the rows [q heads | k heads | v heads] to the heads' outputs, side by side.
AttentionKept attention(const Layers&, int place, Held qkv);
/// Returns dqkv.
Held attention_backward(const Layers&, AttentionKept, Held dout);

struct FeedForwardAt {
  LinearAt up, gate, down;
  int activation = -1, dropout = -1;  ///< modules without parameters
};
struct FeedForwardKept {
  Held up, gate;  ///< what goes into the activation
  Held a, b, c;   ///< inside a written-out activation
  Held y;         ///< what goes into the last linear
};
/// All but the last linear.
FeedForwardKept feed_forward(const Layers&, const Params& params, const FeedForwardAt&, Tensor x);
/// From the gradient of y to that of x.
Held feed_forward_backward(const Layers&, const Params& params, const Grads& grads, const FeedForwardAt&, Tensor x, FeedForwardKept,
                           Held dy, bool accumulate);

}  // namespace shardsim
