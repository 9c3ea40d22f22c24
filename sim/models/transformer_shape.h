// TransformerShape: the sizes of a GPT-2 or Llama model, the published presets, and what they count to.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace shardsim {

/// gpt2: learned positions, LayerNorm, biases, GELU. llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU, no biases.
enum class Family : std::uint8_t { gpt2, llama };

struct TransformerShape {
  Family family = Family::gpt2;
  int layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0, kv_heads = 0;  ///< kv_heads divides heads
  std::int64_t head_dim = 0;             ///< hidden / heads in most models
  std::int64_t ffn = 0;
  std::int64_t vocab = 0;
  std::int64_t positions = 0;  ///< longest sequence; of gpt2 also the rows of its position table
  bool tied = true;            ///< the head's matrix is the embedding's
  double norm_eps = 1e-5;
  double rope_base = 10000;
  bool biases = true;  ///< of the linears and of LayerNorm (gpt2 family; llama has none)
};

/// All parameters, a tied matrix once.
std::int64_t parameters(const TransformerShape&);
/// Floating-point operations of a training step on so many tokens, in sequences of `sequence`, by the convention of model FLOPs
/// utilisation: 6 per weight of a product and token, and 12 per token, earlier or later token, head and its dimension; nothing for
/// what is computed again (Chowdhery et al. 2022, PaLM, appendix B).
double model_flops(const TransformerShape&, double tokens, double sequence);
/// What is impossible about the shape ("heads: 12 do not divide hidden 1000"); empty if nothing.
std::string impossible(const TransformerShape&);

struct Preset {
  std::string name;
  TransformerShape shape;
  std::int64_t published_parameters;  ///< as the model's publishers (or their weights) count them
  std::string source;                 ///< where the count was read
};
const std::vector<Preset>& presets();
const Preset* find_preset(const std::string& name);  ///< null if there is none

}  // namespace shardsim
