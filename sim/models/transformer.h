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
  /// `first`: weights of the model that stand before the block's.
  Block(const Layers& layers, int index, int first);
  const Weights& weights() const { return weights_; }
  Held forward(Held x, Tensor params);
  Held backward(Held dy, Tensor params, Tensor grads, bool accumulate);

 private:
  struct Kept {
    Held x1;  ///< after the attention's residual
    NormKept norm1, norm2;
    AttentionKept attention;
    FeedForwardKept feed_forward;
    Held attention_mask, feed_forward_mask;  ///< of the branches' dropouts
  };
  /// All that backward needs, from the block's input.
  Kept compute(const Params& params) const;
  Held last_linear(const Params& params, Kept&) const;
  double share() const { return layers_.sizes.plan.hidden_dropout; }
  /// Of the attention's probabilities, and of its and the feed-forward's branch.
  enum Dropouts { of_probabilities, of_attention, of_feed_forward, dropouts };
  int place(Dropouts dropout) const { return dropouts * index_ + dropout; }

  const Layers& layers_;
  int index_;
  bool recomputes_;
  Weights weights_;
  int module_ = -1, attention_ = -1, attention_dropout_ = -1, feed_forward_module_ = -1;
  NormAt norm1_, norm2_;
  LinearAt qkv_, out_;
  FeedForwardAt feed_forward_;
  Held x_;
  Kept kept_;
};

class Transformer : public Model {
 public:
  /// `key`: of the masks of dropout, another one on each rank.
  Transformer(Device&, const TransformerSizes&, TokenBatchSource, std::uint64_t key = 0);
  Transformer(const Transformer&) = delete;

  int modules() const override { return int(layouts_.size()); }
  const Layout& layout(int module) const override { return *layouts_[module]; }
  const std::vector<int>& visits() const override { return visits_; }
  void begin_step(int step, Tensor scaler) override;
  void load(int step, int micro_batch) override;
  void forward(int visit, Tensor params) override;
  void backward(int visit, Tensor params, Tensor grads, bool accumulate) override;
  void end_step(std::vector<float>& loss) override;
  const std::vector<ModuleNode>& tree() const override { return tree_.modules(); }
  std::optional<Gpt2Sizes> gpt2() const override;
  void attach(ModuleHooks* hooks) override { layers_.hooks = hooks; }

 private:
  Params params_of(const Weights& weights, Tensor flat) const { return {weights, flat, layers_.hooks}; }
  void embed(const Params& params);
  void embed_backward(const Grads& grads, bool accumulate);
  void head(const Params& params);
  void head_backward(const Params& params, const Grads& grads, bool accumulate);
  void loss();
  void loss_backward();

  const TransformerSizes sizes_;
  ModuleTree tree_;
  Layers layers_;
  TokenBatchSource source_;
  Weights embedding_, head_;
  int token_table_ = -1, position_table_ = -1, head_matrix_ = -1;
  int root_ = -1, tokens_module_ = -1, positions_module_ = -1, dropout_ = -1, head_module_ = -1;
  NormAt final_norm_;
  std::vector<Block> blocks_;
  std::vector<const Layout*> layouts_;
  std::vector<int> visits_;
  Held ids_, targets_, stream_, stream_mask_, gradient_, loss_;
  NormKept normed_;
  Held logits_, wide_logits_, log_probabilities_, held_by_loop_;
  std::vector<Held> masks_;
  Held scores_;  ///< the buffer that the plan asks for
  const std::uint64_t key_;
  Tensor scaler_;
  std::vector<float> id_values_, target_values_;
};

}  // namespace shardsim
