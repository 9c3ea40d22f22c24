// TransformerSizes: a transformer's sizes as the device sees them, charged and real, and the plan by which it is carried out.
#pragma once
#include "core/op.h"
#include "models/transformer_shape.h"

namespace shardsim {

/// What a block's forward keeps for its backward. `full` keeps the block's input and computes the rest again; `selective` computes
/// only the attention's probabilities again (a flash kernel does so by itself).
struct Recompute {
  enum class Kind : std::uint8_t { none, selective, full } kind = Kind::none;
  int every = 1;           ///< full: of every n-th block
  bool early_stop = true;  ///< full: stop when all is there that backward needs: the last linear is not computed again

  bool whole_block(int block) const { return kind == Kind::full && block % every == 0; }
};

/// How the arithmetic is cut into kernels. The numbers are the same up to rounding; time and memory are not.
struct TransformerPlan {
  bool flash_attention = true;   ///< one kernel, or products and a softmax with all probabilities in memory
  bool fused_activation = true;  ///< GELU or SwiGLU in one kernel, or written out in elementary ones
  enum class Loss : std::uint8_t { fused, unfused, fp32, fp32_fused } loss = Loss::fused;  ///< fp32...: logits are converted first
  Recompute recompute;
  bool mask_buffers = false;     ///< each block owns a causal mask of positions x positions, fp32, as the first nanoGPT registers
  double hidden_dropout = 0;     ///< share of what is dropped of the embedding and of both branches of a block; a mask each is kept
  double attention_dropout = 0;  ///< the same of the probabilities of an attention that is written out
  bool scores_buffer = false;    ///< of an attention that is written out: a buffer as large as its scores, for the whole run
  bool keeps_logits = false;     ///< the training loop holds on to the logits to the end of the step; not of a fused loss
};

struct TransformerSizes {
  Family family = Family::gpt2;
  int layers = 1;
  Dim hidden, head_dim, ffn, vocab, positions;
  Heads heads;    ///< query heads, key/value heads, tokens of a sequence
  Dim sequences;  ///< of a micro-batch
  bool tied = true, biases = true;
  double norm_eps = 1e-5, rope_base = 10000;
  Dtype type = Dtype::fp32;  ///< of parameters, activations and their gradients
  int micro_batches = 1;     ///< per step
  TransformerPlan plan;

  Dim tokens() const { return sequences * heads.sequence; }
  Dim qkv() const { return (heads.count + 2 * heads.kv) * head_dim; }
  bool is_llama() const { return family == Family::llama; }
};

}  // namespace shardsim
