// Hugging Face's config.json: the shape of a GPT-2 or Llama model, read with the defaults that its class fills in.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "models/transformer_shape.h"

namespace shardsim::formats {

struct HfConfig {
  TransformerShape shape;
  std::int64_t window = 0;  ///< of a sliding window: longer sequences have another attention than the modelled one; 0: none
  /// What a reader of results has to know: which known model has this parameter count, and what the file asks for that changes no
  /// size (rope_scaling, dropout, ...) and is left out. One sentence each; there is at least one.
  std::vector<std::string> notes;
};

/// Families (model_type): gpt2; llama; mistral, which is Llama's architecture up to its sliding window, so that `positions` ends
/// there. Throws ScenarioError ("path: key: what was found; what is expected") for other families, a missing or impossible size,
/// what would change sizes or arithmetic (biases in Llama, another activation, ...), and files that are none: a symbolic link's
/// text, a git-LFS pointer, the output of print(config), broken JSON. Source: transformers' GPT2Config, LlamaConfig and
/// MistralConfig.
HfConfig read_hf_config(const std::filesystem::path&);

}  // namespace shardsim::formats
