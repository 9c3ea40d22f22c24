// Transformer: GPT-2 and Llama, written once against the device's ops: an embedding, blocks, and a head with the loss.
//
// Module 0 is the embedding, 1 .. L are the blocks. An untied head is module L + 1. A tied head is a second visit to module 0,
// whose embedding matrix it uses again; the final norm then stands in module 0, as in FSDP's root unit.
#pragma once
#include <functional>
#include <vector>

#include "models/layers.h"

namespace shardsim {

/// Fills the tokens of a rank's micro-batch, [sequences x tokens], and what follows each; leaves both empty without numerics.
using TokenBatchSource = std::function<void(int step, int micro_batch, std::vector<float>& ids, std::vector<float>& targets)>;

/// One block: x + attention(norm(x)), then that + feed_forward(norm(that)).
class Block {
 public:
  Block(const Layers& layers, int index);
  const Weights& weights() const { return weights_; }
  Held forward(Held x, Tensor params);
  Held backward(Held dy, Tensor params, Tensor grads, bool accumulate);

 private:
  struct Kept {
    Held x1;  ///< after the attention's residual
    NormKept norm1, norm2;
    AttentionKept attention;
    FeedForwardKept feed_forward;
  };
  /// All that backward needs, from the block's input.
  Kept compute(const Flat& params) const;
  Held last_linear(const Flat& params, const Kept&) const;

  const Layers& layers_;
  bool recomputes_;
  Weights weights_;
  NormAt norm1_, norm2_;
  LinearAt qkv_, out_;
  FeedForwardAt feed_forward_;
  Held x_;
  Kept kept_;
};

class Transformer : public Model {
 public:
  Transformer(Device&, const TransformerSizes&, TokenBatchSource);
  Transformer(const Transformer&) = delete;

  int modules() const override { return int(layouts_.size()); }
  const Layout& layout(int module) const override { return *layouts_[module]; }
  const std::vector<int>& visits() const override { return visits_; }
  void begin_step(int step, Tensor scaler) override;
  void load(int step, int micro_batch) override;
  void forward(int visit, Tensor params) override;
  void backward(int visit, Tensor params, Tensor grads, bool accumulate) override;
  void end_step(std::vector<float>& loss) override;

 private:
  void embed(const Flat& params);
  void embed_backward(const Flat& grads, bool accumulate);
  void head(const Flat& params);
  void head_backward(const Flat& params, const Flat& grads, bool accumulate);
  void loss();
  void loss_backward();

  const TransformerSizes sizes_;
  const Layers layers_;
  TokenBatchSource source_;
  Weights embedding_, head_;
  int token_table_ = -1, position_table_ = -1, head_matrix_ = -1;
  NormAt final_norm_;
  std::vector<Block> blocks_;
  std::vector<const Layout*> layouts_;
  std::vector<int> visits_;
  Held ids_, targets_, stream_, gradient_, loss_;
  NormKept normed_;
  Held logits_, wide_logits_, log_probabilities_;
  Tensor scaler_;
  std::vector<float> id_values_, target_values_;
};

}  // namespace shardsim
