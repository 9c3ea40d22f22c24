// The sizes of GPT-2 and Llama: counts against the published ones and against a list of matrices, and shapes that cannot be.
#include <doctest/doctest.h>

#include <cstdint>

#include "models/transformer_shape.h"

using namespace shardsim;

namespace {

const TransformerShape& shape_of(const char* name) {
  const Preset* preset = find_preset(name);
  REQUIRE(preset);
  return preset->shape;
}

/// Weight by weight, as the checkpoints list them.
std::int64_t listed_gpt2(std::int64_t layers, std::int64_t h, std::int64_t vocab, std::int64_t positions) {
  std::int64_t sum = vocab * h + positions * h;  // wte, wpe
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    sum += h + h;              // ln_1
    sum += h * 3 * h + 3 * h;  // attn.c_attn
    sum += h * h + h;          // attn.c_proj
    sum += h + h;              // ln_2
    sum += h * 4 * h + 4 * h;  // mlp.c_fc
    sum += 4 * h * h + h;      // mlp.c_proj
  }
  return sum + h + h;  // ln_f
}

std::int64_t listed_llama(std::int64_t layers, std::int64_t h, std::int64_t heads, std::int64_t kv, std::int64_t ffn,
                          std::int64_t vocab) {
  const std::int64_t head = h / heads;
  std::int64_t sum = vocab * h;  // embed_tokens
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    sum += h;                                    // input_layernorm
    sum += h * h + 2 * (h * kv * head) + h * h;  // q, k and v, o
    sum += h;                                    // post_attention_layernorm
    sum += h * ffn + h * ffn + ffn * h;          // gate, up, down
  }
  return sum + h + vocab * h;  // norm, lm_head
}

}  // namespace

TEST_CASE("every preset has the published number of parameters") {
  const std::vector<std::string> names = {"gpt2",      "gpt2-medium", "gpt2-large", "gpt2-xl",    "llama-7b",
                                          "llama-13b", "llama-70b",   "llama-3-8b", "llama-3-70b"};
  REQUIRE(presets().size() == names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Preset& preset = presets()[i];
    INFO(preset.name);
    CHECK(preset.name == names[i]);
    CHECK(parameters(preset.shape) == preset.published_parameters);
    CHECK(impossible(preset.shape) == "");
    CHECK(!preset.source.empty());
  }
}

TEST_CASE("a count is the sum over the checkpoint's weights") {
  CHECK(listed_gpt2(12, 768, 50257, 1024) == 124'439'808);
  CHECK(listed_gpt2(24, 1024, 50257, 1024) == 354'823'168);
  CHECK(listed_gpt2(36, 1280, 50257, 1024) == 774'030'080);
  CHECK(listed_gpt2(48, 1600, 50257, 1024) == 1'557'611'200);
  CHECK(listed_llama(32, 4096, 32, 32, 11008, 32000) == 6'738'415'616);
  CHECK(listed_llama(40, 5120, 40, 40, 13824, 32000) == 13'015'864'320);
  CHECK(listed_llama(80, 8192, 64, 8, 28672, 32000) == 68'976'648'192);
  CHECK(listed_llama(32, 4096, 32, 8, 14336, 128256) == 8'030'261'248);
  CHECK(listed_llama(80, 8192, 64, 8, 28672, 128256) == 70'553'706'496);
}

TEST_CASE("an untied head adds vocab x hidden, a tied one nothing") {
  TransformerShape shape = shape_of("gpt2");
  shape.tied = false;
  CHECK(parameters(shape) == 124'439'808 + 50257 * 768);
  shape = shape_of("llama-3-8b");
  shape.tied = true;
  CHECK(parameters(shape) == 8'030'261'248 - 128256 * 4096);
}

TEST_CASE("a padded vocabulary adds rows to the embedding") {
  TransformerShape shape = shape_of("gpt2-large");
  shape.vocab = 50304;
  CHECK(parameters(shape) == 774'030'080 + 47 * 1280);
}

TEST_CASE("the head's size may be another than hidden / heads in Llama: q, k, v and out follow it") {
  TransformerShape shape = shape_of("llama-7b");
  shape.head_dim = 64;  // half of 128: half of q, k, v and out is gone, 2 h h per layer
  CHECK(impossible(shape) == "");
  CHECK(parameters(shape) == 6'738'415'616 - 32 * 2 * 4096 * 4096);
}

TEST_CASE("a preset that is not there is not found") {
  CHECK(find_preset("gpt3") == nullptr);
  CHECK(find_preset("") == nullptr);
}

TEST_CASE("what is impossible about a shape is said") {
  struct Case {
    const char* message;
    void (*change)(TransformerShape&);
    const char* preset = "gpt2";
  };
  const Case cases[] = {
      {"heads: 12 do not divide hidden 1000", [](TransformerShape& s) { s.hidden = 1000, s.head_dim = 1000 / 12; }},
      {"heads: 800 do not divide hidden 768", [](TransformerShape& s) { s.heads = s.kv_heads = 800, s.head_dim = 0; }},
      {"kv_heads: 12 do not divide heads 32", [](TransformerShape& s) { s.kv_heads = 12; }, "llama-7b"},
      {"kv_heads: 64 do not divide heads 32", [](TransformerShape& s) { s.kv_heads = 64; }, "llama-7b"},
      {"kv_heads: 4 differ from heads 12", [](TransformerShape& s) { s.kv_heads = 4; }},
      {"head_dim: 32 times heads 12 is not hidden 768", [](TransformerShape& s) { s.head_dim = 32; }},
      {"head_dim: 127 is odd", [](TransformerShape& s) { s.head_dim = 127; }, "llama-7b"},
      {"head_dim: 0 is not positive", [](TransformerShape& s) { s.head_dim = 0; }, "llama-7b"},
      {"head_dim: -64 is not positive", [](TransformerShape& s) { s.head_dim = -64; }},
      {"layers: 0 is not positive", [](TransformerShape& s) { s.layers = 0; }},
      {"hidden: -768 is not positive", [](TransformerShape& s) { s.hidden = -768; }},
      {"heads: 0 is not positive", [](TransformerShape& s) { s.heads = 0; }},
      {"kv_heads: 0 is not positive", [](TransformerShape& s) { s.kv_heads = 0; }, "llama-7b"},
      {"ffn: 0 is not positive", [](TransformerShape& s) { s.ffn = 0; }},
      {"vocab: 0 is not positive", [](TransformerShape& s) { s.vocab = 0; }},
      {"positions: -1 is not positive", [](TransformerShape& s) { s.positions = -1; }},
      {"ffn: 9223372036854775807 is larger than 2^40", [](TransformerShape& s) { s.ffn = INT64_MAX; }},
      {"head_dim: 9223372036854775806 is larger", [](TransformerShape& s) { s.head_dim = INT64_MAX - 1; }, "llama-7b"},
      {"vocab: 16777217 is larger than 2^24", [](TransformerShape& s) { s.vocab = (1 << 24) + 1; }},
      {"biases: llama has none", [](TransformerShape& s) { s.biases = true; }, "llama-7b"},
      {"biases: gpt2 has them", [](TransformerShape& s) { s.biases = false; }},
      {"norm_eps: ", [](TransformerShape& s) { s.norm_eps = -1; }},
      {"rope_base: ", [](TransformerShape& s) { s.rope_base = 0; }, "llama-7b"},
      {"parameters: there are more than 2^50", [](TransformerShape& s) { s.layers = 2'000'000'000, s.ffn = 1 << 30; }},
  };
  for (const Case& each : cases) {
    TransformerShape shape = shape_of(each.preset);
    each.change(shape);
    const std::string message = impossible(shape);
    CHECK_MESSAGE(message.find(each.message) == 0, message);
    CHECK(message.find('\n') == std::string::npos);
  }
}

TEST_CASE("the largest counts that pass fit into 64 bits") {
  TransformerShape shape = shape_of("llama-70b");
  shape.layers = 2'000'000'000;  // 8.6e8 parameters each: 1.7e18, above 2^50 = 1.1e15
  CHECK(impossible(shape).find("parameters: ") == 0);
  shape.layers = 1'000'000;
  CHECK(impossible(shape) == "");
  CHECK(parameters(shape) == 68'976'648'192 + (1'000'000 - 80) * ((68'976'648'192 - 2 * 32000 * 8192 - 8192) / 80));
}

TEST_CASE("model FLOPs of GPT-2 Large's step are Korthikanti's closed form") {
  TransformerShape shape = find_preset("gpt2-large")->shape;
  shape.vocab = 50304;
  const double b = 4, s = 1024, h = 1280, L = 36, V = 50304;
  const double closed = 72 * b * L * s * h * h * (1 + s / (6 * h) + V / (12 * h * L));
  CHECK(model_flops(shape, b * s, s) == doctest::Approx(closed).epsilon(1e-12));
  CHECK(model_flops(find_preset("llama-3-8b")->shape, 1, 8192) ==
        doctest::Approx(6 * 7.504e9 + 12 * 32 * 4096.0 * 8192).epsilon(0.001));
}
