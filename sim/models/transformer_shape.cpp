// TransformerShape: the count of its parameters, what makes a shape impossible, and the published models.
#include "models/transformer_shape.h"

#include <utility>

namespace shardsim {
namespace {

/// In N's arithmetic: exact in std::int64_t, free of overflow in double.
template <class N>
N count(const TransformerShape& s) {
  const N h(s.hidden), width = N(s.heads) * N(s.head_dim), kv_width = N(s.kv_heads) * N(s.head_dim), ffn(s.ffn), vocab(s.vocab);
  const N tables = (s.tied ? N(1) : N(2)) * vocab * h;
  if (s.family == Family::llama) return tables + N(s.layers) * (2 * h + h * (width + 2 * kv_width) + width * h + 3 * h * ffn) + h;
  const N norm = 2 * h, attention = (h + 1) * 3 * width + (width + 1) * h, mlp = (h + 1) * ffn + (ffn + 1) * h;
  return tables + N(s.positions) * h + N(s.layers) * (2 * norm + attention + mlp) + norm;
}

std::string text(std::int64_t number) { return std::to_string(number); }

constexpr std::int64_t largest_size = std::int64_t{1} << 40, largest_vocab = std::int64_t{1} << 24;
constexpr double largest_count = double(std::int64_t{1} << 50);

TransformerShape gpt2(int layers, std::int64_t hidden, std::int64_t heads) {
  return {.family = Family::gpt2,
          .layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = heads,
          .head_dim = hidden / heads,
          .ffn = 4 * hidden,
          .vocab = 50257,
          .positions = 1024,
          .tied = true,
          .norm_eps = 1e-5,
          .rope_base = 10000,
          .biases = true};
}

TransformerShape llama(int layers, std::int64_t hidden, std::int64_t heads, std::int64_t kv_heads, std::int64_t ffn) {
  return {.family = Family::llama,
          .layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = hidden / heads,
          .ffn = ffn,
          .vocab = 32000,
          .positions = 4096,
          .tied = false,
          .norm_eps = 1e-5,
          .rope_base = 10000,
          .biases = false};
}

TransformerShape llama3(int layers, std::int64_t hidden, std::int64_t heads, std::int64_t kv_heads, std::int64_t ffn) {
  TransformerShape shape = llama(layers, hidden, heads, kv_heads, ffn);
  shape.vocab = 128256, shape.positions = 8192, shape.rope_base = 500000;
  return shape;
}

}  // namespace

std::int64_t parameters(const TransformerShape& shape) { return count<std::int64_t>(shape); }

double model_flops(const TransformerShape& s, double tokens, double sequence) {
  const double h = double(s.hidden), width = double(s.heads) * double(s.head_dim), kv = double(s.kv_heads) * double(s.head_dim);
  const double feed_forward = (s.family == Family::llama ? 3.0 : 2.0) * h * double(s.ffn);
  const double weights = s.layers * (h * (width + 2 * kv) + width * h + feed_forward) + double(s.vocab) * h;
  return tokens * (6 * weights + 12 * s.layers * width * sequence);
}

std::string impossible(const TransformerShape& s) {
  const std::pair<const char*, std::int64_t> sizes[] = {{"layers", s.layers},      {"hidden", s.hidden}, {"heads", s.heads},
                                                        {"kv_heads", s.kv_heads},  {"ffn", s.ffn},       {"vocab", s.vocab},
                                                        {"positions", s.positions}};
  for (const auto& [name, size] : sizes) {
    if (size < 1) return std::string(name) + ": " + text(size) + " is not positive";
    if (size > largest_size) return std::string(name) + ": " + text(size) + " is larger than 2^40";
  }
  // Whoever does not give head_dim has computed hidden / heads, rounded down.
  if (s.head_dim == s.hidden / s.heads && s.hidden % s.heads != 0)
    return "heads: " + text(s.heads) + " do not divide hidden " + text(s.hidden);
  if (s.head_dim < 1) return "head_dim: " + text(s.head_dim) + " is not positive";
  if (s.head_dim > largest_size) return "head_dim: " + text(s.head_dim) + " is larger than 2^40";
  if (s.heads % s.kv_heads != 0) return "kv_heads: " + text(s.kv_heads) + " do not divide heads " + text(s.heads);
  if (s.family == Family::gpt2) {
    if (s.kv_heads != s.heads)
      return "kv_heads: " + text(s.kv_heads) + " differ from heads " + text(s.heads) + "; gpt2 has a key/value head per head";
    if (s.head_dim * double(s.heads) != double(s.hidden))
      return "head_dim: " + text(s.head_dim) + " times heads " + text(s.heads) + " is not hidden " + text(s.hidden) +
             ", as in gpt2";
  }
  if (s.family == Family::llama && s.head_dim % 2 != 0)
    return "head_dim: " + text(s.head_dim) + " is odd; rotary positions turn pairs";
  // A norm without a bias is an RMSNorm here, so that GPT-2 with neither is not to be had.
  if (s.biases != (s.family == Family::gpt2)) return s.biases ? "biases: llama has none" : "biases: gpt2 has them in every linear";
  if (s.vocab > largest_vocab) return "vocab: " + text(s.vocab) + " is larger than 2^24: tokens travel as float32";
  if (!(s.norm_eps >= 0 && s.norm_eps < 1)) return "norm_eps: has to be from 0 to below 1";
  if (!(s.rope_base > 1 && s.rope_base < 1e30)) return "rope_base: has to be above 1";
  if (count<double>(s) > largest_count) return "parameters: there are more than 2^50";
  return "";
}

const std::vector<Preset>& presets() {
  // The last three are the originals' counts in the tables of a paper that prunes them; Llama 3 and 3.1 70B have one shape.
  static const std::string keras = "github.com/keras-team/keras-hub, src/models/", loram = "arXiv 2502.13533, ";
  static const std::vector<Preset> all = {
      {"gpt2", gpt2(12, 768, 12), 124'439'808, keras + "gpt2/gpt2_presets.py"},
      {"gpt2-medium", gpt2(24, 1024, 16), 354'823'168, keras + "gpt2/gpt2_presets.py"},
      {"gpt2-large", gpt2(36, 1280, 20), 774'030'080, keras + "gpt2/gpt2_presets.py"},
      {"gpt2-xl", gpt2(48, 1600, 25), 1'557'611'200, keras + "gpt2/gpt2_presets.py"},
      {"llama-7b", llama(32, 4096, 32, 32, 11008), 6'738'415'616, keras + "llama/llama_presets.py"},
      {"llama-13b", llama(40, 5120, 40, 40, 13824), 13'015'864'320, loram + "table 4"},
      {"llama-70b", llama(80, 8192, 64, 8, 28672), 68'976'648'192, loram + "table 5"},
      {"llama-3-8b", llama3(32, 4096, 32, 8, 14336), 8'030'261'248, keras + "llama3/llama3_presets.py"},
      {"llama-3-70b", llama3(80, 8192, 64, 8, 28672), 70'553'706'496, loram + "table 5"},
  };
  return all;
}

const Preset* find_preset(const std::string& name) {
  for (const Preset& preset : presets())
    if (preset.name == name) return &preset;
  return nullptr;
}

}  // namespace shardsim
