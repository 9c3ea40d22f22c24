// Hugging Face's config.json: both families with what their classes leave unsaid, and every way in which a file is not one.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "formats/hf_config.h"
#include "scratch.h"

using namespace shardsim;
using test::Scratch;
using Json = nlohmann::json;

namespace {

/// A small model of each family, with what such files have beside the sizes.
const Json small_gpt2 = {{"model_type", "gpt2"},
                         {"architectures", {"GPT2LMHeadModel"}},
                         {"n_layer", 2},
                         {"n_embd", 48},
                         {"n_head", 4},
                         {"n_inner", nullptr},
                         {"vocab_size", 96},
                         {"n_positions", 32},
                         {"n_ctx", 32},
                         {"activation_function", "gelu_new"},
                         {"torch_dtype", "float32"},
                         {"bos_token_id", 95},
                         {"my_tool", {{"x", 1}}}};
const Json small_llama = {{"model_type", "llama"},          {"architectures", {"LlamaForCausalLM"}},
                          {"num_hidden_layers", 3},         {"hidden_size", 64},
                          {"num_attention_heads", 8},       {"num_key_value_heads", 2},
                          {"intermediate_size", 176},       {"vocab_size", 80},
                          {"max_position_embeddings", 128}, {"hidden_act", "silu"},
                          {"rms_norm_eps", 1e-5},           {"rope_scaling", nullptr},
                          {"eos_token_id", {78, 79}},       {"dtype", "bfloat16"}};

Json with(Json config, const Json& changes) {
  config.update(changes);
  return config;
}
Json without(Json config, const char* key) {
  config.erase(key);
  return config;
}

class Reading {
 public:
  formats::HfConfig text(const std::string& text) const {
    scratch_.write("config.json", text);
    return formats::read_hf_config(scratch_ / "config.json");
  }
  TransformerShape shape(const Json& config) const { return text(config.dump(2)).shape; }
  std::string notes(const Json& config) const {
    std::string all;
    for (const std::string& note : text(config.dump(2)).notes) all += note + "\n";
    return all;
  }
  /// The message without the file's name, which has to be in front.
  std::string refusal(const std::string& bytes) const {
    try {
      text(bytes);
    } catch (const ScenarioError& error) {
      const std::string message = error.what(), file = (scratch_ / "config.json").string() + ": ";
      CHECK_MESSAGE(message.find(file) == 0, message);
      CHECK(message.find('\n') == std::string::npos);
      return message.substr(file.size());
    }
    return "was accepted";
  }
  const Scratch& folder() const { return scratch_; }

 private:
  Scratch scratch_;
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a gpt2 config becomes its shape: ffn is 4 hidden where n_inner is null, and the head is tied without a key") {
  const TransformerShape shape = Reading().shape(small_gpt2);
  CHECK(shape.family == Family::gpt2);
  CHECK(shape.layers == 2);
  CHECK(shape.hidden == 48);
  CHECK(shape.heads == 4);
  CHECK(shape.kv_heads == 4);
  CHECK(shape.head_dim == 12);
  CHECK(shape.ffn == 192);
  CHECK(shape.vocab == 96);
  CHECK(shape.positions == 32);
  CHECK(shape.tied);
  CHECK(shape.biases);
  CHECK(shape.norm_eps == 1e-5);
}

TEST_CASE("a llama config becomes its shape: the head is untied without a key") {
  const TransformerShape shape = Reading().shape(small_llama);
  CHECK(shape.family == Family::llama);
  CHECK(shape.layers == 3);
  CHECK(shape.hidden == 64);
  CHECK(shape.heads == 8);
  CHECK(shape.kv_heads == 2);
  CHECK(shape.head_dim == 8);
  CHECK(shape.ffn == 176);
  CHECK(shape.vocab == 80);
  CHECK(shape.positions == 128);
  CHECK(!shape.tied);
  CHECK(!shape.biases);
  CHECK(shape.norm_eps == 1e-5);
  CHECK(shape.rope_base == 10000);
}

TEST_CASE("what the keys say wins over what the class would do") {
  const Reading reading;
  CHECK(!reading.shape(with(small_gpt2, {{"tie_word_embeddings", false}})).tied);
  CHECK(reading.shape(with(small_llama, {{"tie_word_embeddings", true}})).tied);
  CHECK(reading.shape(with(small_gpt2, {{"n_inner", 100}})).ffn == 100);
  CHECK(reading.shape(with(small_gpt2, {{"layer_norm_epsilon", 1e-6}})).norm_eps == 1e-6);
  CHECK(reading.shape(without(small_llama, "rms_norm_eps")).norm_eps == 1e-6);
  CHECK(reading.shape(with(small_llama, {{"rope_theta", 500000.0}})).rope_base == 500000);
  CHECK(reading.shape(with(small_llama, {{"rope_parameters", {{"rope_theta", 250000}, {"rope_type", "default"}}}})).rope_base ==
        250000);
  CHECK(reading.shape(with(small_llama, {{"head_dim", 32}})).head_dim == 32);
  CHECK(reading.shape(with(small_llama, {{"head_dim", nullptr}})).head_dim == 8);
  CHECK(reading.shape(with(small_llama, {{"attention_bias", false}, {"mlp_bias", false}})).biases == false);
  CHECK(reading.shape(with(small_llama, {{"hidden_size", 64.0}})).hidden == 64);
}

TEST_CASE("a llama file without num_key_value_heads is from before grouped queries: as many as heads") {
  CHECK(Reading().shape(without(small_llama, "num_key_value_heads")).kv_heads == 8);
  CHECK(Reading().shape(with(small_llama, {{"num_key_value_heads", nullptr}})).kv_heads == 8);
}

TEST_CASE("gpt2's sizes also go by their general names, and n_ctx serves where n_positions is missing") {
  const Reading reading;
  Json config = without(without(without(small_gpt2, "n_embd"), "n_layer"), "n_head");
  config.update({{"hidden_size", 48}, {"num_hidden_layers", 2}, {"num_attention_heads", 4}});
  CHECK(parameters(reading.shape(config)) == parameters(reading.shape(small_gpt2)));
  CHECK(reading.shape(without(small_gpt2, "n_positions")).positions == 32);
  CHECK(reading.shape(with(small_gpt2, {{"n_ctx", 16}})).positions == 32);
  CHECK(has(reading.notes(with(small_gpt2, {{"n_ctx", 16}})), "n_ctx is left out: n_positions is the table's size"));
  CHECK(reading.refusal(with(small_gpt2, {{"hidden_size", 64}}).dump()) == "n_embd: is 48, but hidden_size is 64");
}

TEST_CASE("the count is compared with those of the known models") {
  const Reading reading;
  const Json large = {{"model_type", "gpt2"}, {"n_layer", 36},       {"n_embd", 1280},
                      {"n_head", 20},         {"vocab_size", 50257}, {"n_positions", 1024}};
  CHECK(has(reading.notes(large), "774030080 parameters: as many as gpt2-large\n"));
  const Json llama3 = {{"model_type", "llama"},     {"num_hidden_layers", 80},        {"hidden_size", 8192},
                       {"num_attention_heads", 64}, {"num_key_value_heads", 8},       {"intermediate_size", 28672},
                       {"vocab_size", 128256},      {"max_position_embeddings", 8192}};
  CHECK(has(reading.notes(llama3), "70553706496 parameters: as many as llama-3-70b\n"));
  // A fixture that has kept one layer, and a vocabulary that was padded.
  CHECK(has(reading.notes(with(large, {{"n_layer", 1}})), " parameters: no known model has so many\n"));
  CHECK(has(reading.notes(with(large, {{"vocab_size", 50304}})), "774090240 parameters: no known model has so many\n"));
}

TEST_CASE("what changes no size is accepted, and said") {
  const Reading reading;
  const Json scaling = {{"factor", 8.0}, {"rope_type", "llama3"}};
  CHECK(has(reading.notes(with(small_llama, {{"rope_scaling", scaling}})),
            "rope_scaling \"llama3\" is left out: it changes no size"));
  CHECK(has(reading.notes(with(small_llama, {{"rope_scaling", {{"type", "linear"}, {"factor", 2}}}})), "rope_scaling \"linear\""));
  CHECK(has(reading.notes(with(small_gpt2, {{"resid_pdrop", 0.1}})), "dropout is left out (resid_pdrop)"));
  CHECK(has(reading.notes(with(small_gpt2, {{"initializer_range", 0.1}})), "initializer_range is left out: the seeded start"));
  CHECK_FALSE(has(reading.notes(with(small_gpt2, {{"initializer_range", 0.02}})), "initializer_range"));
  CHECK(has(reading.notes(with(small_llama, {{"attention_dropout", 0.1}})), "dropout is left out"));
  CHECK(!has(reading.notes(with(small_llama, {{"attention_dropout", 0.0}})), "dropout"));
  CHECK(has(reading.notes(with(small_gpt2, {{"activation_function", "gelu"}})), "gelu is computed as gelu_new"));
  CHECK(has(reading.notes(without(small_llama, "max_position_embeddings")), "2048, the class's default"));
  CHECK(has(reading.notes(with(small_llama, {{"quantization_config", {{"bits", 4}}}})), "quantization_config is left out"));
}

TEST_CASE("mistral is llama up to its sliding window") {
  const Reading reading;
  Json config =
      with(small_llama, {{"model_type", "mistral"}, {"architectures", {"MistralForCausalLM"}}, {"sliding_window", nullptr}});
  CHECK(parameters(reading.shape(config)) == parameters(reading.shape(small_llama)));
  CHECK(reading.shape(config).positions == 128);
  config["sliding_window"] = 4096;
  CHECK(reading.shape(config).positions == 128);
  config["sliding_window"] = 64;
  CHECK(reading.shape(config).positions == 64);
  CHECK(has(reading.notes(config), "sequences up to sliding_window, 64, are modelled"));
  config["max_position_embeddings"] = 32768;
  CHECK(reading.shape(without(config, "sliding_window")).positions == 4096);
  CHECK(reading.refusal(without(config, "num_key_value_heads").dump()) == "num_key_value_heads: is missing");
}

TEST_CASE("a leading blank line and one long line are fine") {
  CHECK(parameters(Reading().text("\n  \n" + small_gpt2.dump()).shape) == parameters(Reading().shape(small_gpt2)));
}

TEST_CASE("other families are refused by name, with the known ones") {
  const Reading reading;
  CHECK(
      reading.refusal(with(small_llama, {{"model_type", "qwen2"}}).dump()) ==
      "model_type: qwen2 is no family that can be built (it has biases of q, k and v that no key tells of); known are gpt2, llama "
      "and mistral");
  for (const char* family : {"bert", "bloom", "dbrx", "falcon", "gpt_neox", "gptj", "mixtral", "mpt", "opt", "phi", "phi3", "qwen3",
                             "qwen3_moe", "deepseek_v3", "t5", "clip", "GPT2", "llama4"})
    CHECK(has(reading.refusal(with(small_llama, {{"model_type", family}}).dump()),
              std::string("model_type: ") + family + " is no family that can be built"));
  CHECK(reading.refusal(without(small_gpt2, "model_type").dump()) == "model_type: is missing; known are gpt2, llama and mistral");
  CHECK(has(reading.refusal(R"({"bert_model_config": {"hidden_size": 4}})"), "model_type: is missing"));
}

TEST_CASE("what would make another model of it is refused, naming the key") {
  const Reading reading;
  struct Case {
    Json config;
    std::string message;
  };
  const Case cases[] = {
      {with(small_llama, {{"attention_bias", true}}), "attention_bias: true is not modelled"},
      {with(small_llama, {{"mlp_bias", true}}), "mlp_bias: true is not modelled"},
      {with(small_llama, {{"hidden_act", "gelu"}}), "hidden_act: \"gelu\" is not modelled; silu is"},
      {with(small_llama, {{"architectures", {"LlamaForSequenceClassification"}}}),
       "architectures: [\"LlamaForSequenceClassification\"]"},
      {with(small_llama, {{"num_hidden_layers", 0}}), "num_hidden_layers: 0 is not a whole number from 1 to 2^40"},
      {with(small_llama, {{"hidden_size", "64"}}), "hidden_size: \"64\" is not a whole number"},
      {with(small_llama, {{"hidden_size", 64.5}}), "hidden_size: 64.5 is not a whole number"},
      {with(small_llama, {{"hidden_size", true}}), "hidden_size: true is not a whole number"},
      {with(small_llama, {{"hidden_size", -64}}), "hidden_size: -64 is not a whole number"},
      {with(small_llama, {{"vocab_size", 18446744073709551615u}}), "vocab_size: 18446744073709551615 is not a whole number"},
      {with(small_llama, {{"num_hidden_layers", 2000000}}), "num_hidden_layers: 2000000 is more than 2^20"},
      {with(small_llama, {{"num_attention_heads", 7}, {"num_key_value_heads", 7}}),
       "num_attention_heads: 7 does not divide hidden_size 64"},
      {with(small_llama, {{"num_key_value_heads", 3}}), "num_key_value_heads: 3 does not divide num_attention_heads 8"},
      {with(small_llama, {{"head_dim", 7}}), "head_dim: 7 is odd"},
      {with(small_llama, {{"rms_norm_eps", "1e-5"}}), "rms_norm_eps: \"1e-5\" is not a number"},
      {with(small_llama, {{"tie_word_embeddings", "no"}}), "tie_word_embeddings: \"no\" is neither true nor false"},
      {with(small_llama, {{"rope_scaling", "linear"}}), "rope_scaling: \"linear\" is not an object"},
      {with(small_llama, {{"intermediate_size", 1000000000000}, {"hidden_size", 1 << 30}}), "parameters: there are more than 2^50"},
      {without(small_llama, "vocab_size"), "vocab_size: is missing"},
      {without(small_llama, "intermediate_size"), "intermediate_size: is missing"},
      {without(small_gpt2, "n_layer"), "n_layer: is missing"},
      {without(without(small_gpt2, "n_positions"), "n_ctx"), "n_positions: is missing"},
      {with(small_gpt2, {{"n_head", 5}}), "n_head: 5 does not divide n_embd 48"},
      {with(small_gpt2, {{"activation_function", "relu"}}), "activation_function: \"relu\" is not modelled; gelu_new is"},
      {with(small_gpt2, {{"scale_attn_weights", false}}), "scale_attn_weights: false is not modelled"},
      {with(small_gpt2, {{"scale_attn_by_inverse_layer_idx", true}}), "scale_attn_by_inverse_layer_idx: true is not modelled"},
      {with(small_gpt2, {{"add_cross_attention", true}}), "add_cross_attention: true is not modelled"},
      {with(small_gpt2, {{"architectures", {"GPT2DoubleHeadsModel"}}}),
       "architectures: [\"GPT2DoubleHeadsModel\"] is not the family's"},
      {with(small_gpt2, {{"model_type", 2}}), "model_type: 2 is not a text"},
  };
  for (const Case& each : cases) {
    const std::string message = reading.refusal(each.config.dump());
    CHECK_MESSAGE(message.find(each.message) == 0, message);
  }
}

TEST_CASE("a class name in another case is the same class, and null says nothing") {
  CHECK(Reading().shape(with(small_llama, {{"architectures", {"LLaMAForCausalLM"}}})).hidden == 64);
  CHECK(Reading().shape(with(small_llama, {{"architectures", nullptr}})).hidden == 64);
}

TEST_CASE("files that are no config.json say what they are instead") {
  const Reading reading;
  CHECK(reading.refusal("") == "is empty");
  CHECK(reading.refusal(" \n\t\n") == "is empty");
  CHECK(reading.refusal("../../blobs/3f2a9c") ==
        "holds the text of a symbolic link (../../blobs/3f2a9c), not a config; copy the file that it points to");
  CHECK(has(reading.refusal("../other/config.json\n"), "holds the text of a symbolic link"));
  CHECK(reading.refusal("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 700\n") ==
        "is a git-LFS pointer, not the file; fetch it with git lfs pull");
  CHECK(reading.refusal("GPT2Config " + small_gpt2.dump(2)) ==
        "is what print(config) shows, with the class's name in front; remove 'GPT2Config' before the first brace");
  CHECK(reading.refusal("\nGPT2Config" + small_gpt2.dump(2)) ==
        "is what print(config) shows, with the class's name in front; remove 'GPT2Config' before the first brace");
  CHECK(reading.refusal("<!DOCTYPE html><html></html>") == "is a web page, not a config.json");
  CHECK(has(reading.refusal("{\n  \"n_layer\": 2,\n  \"n_embd\" 48\n}"), "line 3: is not JSON"));
  CHECK(has(reading.refusal("{\"n_layer\": 2"), "line 1: is not JSON"));
  CHECK(has(reading.refusal("{\"n_layer\": 1e999}"), "is not JSON that can be read"));
  CHECK(has(reading.refusal("{\"a\": \"\xff\"}"), "line 1: is not JSON"));
  CHECK(reading.refusal("{\"n_layer\": 1, \"n_embd\": 8, \"n_layer\": 2}") == "n_layer: is given twice; remove one");
  CHECK(reading.refusal("{\"a\": [{\"b\": 1}, {\"b\": 1, \"b\": 1}]}") == "b: is given twice; remove one");
  CHECK(reading.refusal("[1, 2]") == "is JSON, but not an object with keys; a config.json is expected");
}

TEST_CASE("a file that cannot be read says why") {
  const Scratch scratch;
  const auto refusal = [](const std::filesystem::path& file) -> std::string {
    try {
      formats::read_hf_config(file);
    } catch (const ScenarioError& error) {
      return error.what();
    }
    return "was accepted";
  };
  CHECK(refusal(scratch / "none.json") == (scratch / "none.json").string() + ": there is no such file");
  CHECK(refusal(scratch.path()) == scratch.path().string() + ": is a folder; name the config.json in it");
  std::filesystem::create_symlink("../../blobs/3f2a9c", scratch / "config.json");
  CHECK(refusal(scratch / "config.json") ==
        (scratch / "config.json").string() + ": is a symbolic link to a file that is not there");
}
