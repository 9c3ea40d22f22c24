// Hugging Face's config.json: each family has names of its own for the same sizes, and defaults that no key tells of.
#include "formats/hf_config.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/error.h"

namespace shardsim::formats {
namespace {

using Json = nlohmann::json;
using Names = std::vector<const char*>;

/// What users try, and why it is not to be had.
const std::map<std::string, const char*> refused_families = {
    {"bert", "an encoder"},
    {"bloom", "ALiBi instead of positions"},
    {"dbrx", "a mixture of experts"},
    {"deepseek_v3", "a mixture of experts"},
    {"falcon", "attention and MLP side by side"},
    {"gemma", "norms and embeddings scaled in another way"},
    {"gpt_neo", "local attention"},
    {"gpt_neox", "attention and MLP side by side"},
    {"gptj", "attention and MLP side by side"},
    {"mixtral", "a mixture of experts"},
    {"mpt", "ALiBi instead of positions"},
    {"opt", "a position table with an offset, and ReLU"},
    {"phi", "attention and MLP side by side"},
    {"phi3", "fused projections, and a rotation of its own"},
    {"qwen2", "biases of q, k and v that no key tells of"},
    {"qwen3", "norms of q and k"},
    {"qwen3_moe", "a mixture of experts"},
    {"t5", "an encoder and a decoder"},
};

class Reader {
 public:
  explicit Reader(const std::filesystem::path& file) : file_(file) {
    const std::string text = contents();
    refuse_what_is_no_json(text);
    try {
      config_ = parsed(text);
    } catch (const Json::parse_error& error) {
      const auto end = text.begin() + std::ptrdiff_t(std::min(error.byte, text.size()));
      refuse("line " + std::to_string(1 + std::count(text.begin(), end, '\n')) + ": is not JSON (" + detail(error.what()) + ")");
    } catch (const Json::exception& error) {
      refuse("is not JSON that can be read (" + detail(error.what()) + ")");
    }
    if (!config_.is_object()) refuse("is JSON, but not an object with keys; a config.json is expected");
  }

  HfConfig read() {
    const std::string family = model_type();
    if (family == "gpt2") gpt2();
    else if (family == "llama" || family == "mistral") llama(family == "mistral");
    else refuse_family(family);
    check_architecture(family == "gpt2" ? "GPT2LMHeadModel" : family == "llama" ? "LlamaForCausalLM" : "MistralForCausalLM");
    if (const std::string reason = impossible(shape_); !reason.empty()) refuse(reason);
    note_what_is_left_out();
    compare_count();
    return {shape_, window_, notes_};
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const { throw ScenarioError(file_.string() + ": " + what); }

  /// nlohmann takes the last of two equal keys.
  Json parsed(const std::string& text) const {
    std::vector<std::set<std::string>> keys;  // of the objects that are open
    return Json::parse(text, [&](int, Json::parse_event_t event, Json& value) {
      if (event == Json::parse_event_t::object_start) keys.emplace_back();
      if (event == Json::parse_event_t::object_end) keys.pop_back();
      if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
        refuse(value.get<std::string>() + ": is given twice; remove one");
      return true;
    });
  }

  std::string contents() const {
    std::error_code error;
    if (std::filesystem::is_directory(file_, error)) refuse("is a folder; name the config.json in it");
    if (!std::filesystem::exists(file_, error))
      refuse(std::filesystem::is_symlink(file_, error) ? "is a symbolic link to a file that is not there"
                                                       : "there is no such file");
    if (!std::filesystem::is_regular_file(file_, error)) refuse("is a device or a pipe; name a config.json");
    if (std::filesystem::file_size(file_, error) > 16 << 20) refuse("has more than 16 MiB, so it is no config.json");
    std::ifstream stream(file_, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(stream), {}};
    if (!stream) refuse("cannot be read");
    return text;
  }

  /// What people have in place of a config.json.
  void refuse_what_is_no_json(const std::string& text) const {
    const std::size_t begin = text.find_first_not_of(" \t\r\n");
    if (begin == std::string::npos) refuse("is empty");
    const std::string first = text.substr(begin, text.find_first_of("\r\n", begin) - begin);
    if (first.rfind("version https://git-lfs", 0) == 0) refuse("is a git-LFS pointer, not the file; fetch it with git lfs pull");
    if (text.find('{') == std::string::npos && first.find('/') != std::string::npos && first.find(' ') == std::string::npos)
      refuse("holds the text of a symbolic link (" + first.substr(0, 80) + "), not a config; copy the file that it points to");
    if (first[0] == '<') refuse("is a web page, not a config.json");
    const std::size_t brace = first.find('{');
    if (brace == std::string::npos || brace == 0) return;
    const std::string name = first.substr(0, first.find_last_not_of(' ', brace - 1) + 1);
    if (std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c); }))
      refuse("is what print(config) shows, with the class's name in front; remove '" + name + "' before the first brace");
  }

  /// nlohmann's message without its number and place.
  static std::string detail(std::string what) {
    const std::size_t colon = what.find(": ");
    if (colon != std::string::npos) what = what.substr(colon + 2);
    std::replace(what.begin(), what.end(), '\n', ' ');
    return what.substr(0, 120);
  }

  static std::string known() { return "known are gpt2, llama and mistral"; }
  static std::string shown(const Json& value) {
    const std::string text = value.dump();
    return text.size() > 80 ? text.substr(0, 77) + "..." : text;
  }

  std::string model_type() const {
    const Json* value = find({"model_type"});
    if (!value) refuse("model_type: is missing; " + known());
    if (!value->is_string()) refuse("model_type: " + shown(*value) + " is not a text; " + known());
    return value->get<std::string>();
  }

  [[noreturn]] void refuse_family(const std::string& family) const {
    const auto found = refused_families.find(family);
    refuse("model_type: " + family + " is no family that can be built" +
           (found == refused_families.end() ? "" : std::string(" (it has ") + found->second + ")") + "; " + known());
  }

  /// Transformers classes write other heads, and other code, under the same model_type.
  void check_architecture(const std::string& expected) const {
    const auto lower = [](std::string text) {
      std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
      return text;
    };
    const Json* list = find({"architectures"});
    if (!list) return;
    for (const Json& name : *list)
      if (name.is_string() && lower(name.get<std::string>()) == lower(expected)) return;
    refuse("architectures: " + shown(*list) + " is not the family's language model; " + expected + " is expected");
  }

  /// The value of the first name that is there and not null; where two are there, they have to agree.
  const Json* find(const Names& names) const {
    const Json* found = nullptr;
    for (const char* name : names) {
      const auto at = config_.find(name);
      if (at == config_.end() || at->is_null()) continue;
      if (found && *found != *at) refuse(std::string(names[0]) + ": is " + shown(*found) + ", but " + name + " is " + shown(*at));
      found = &*at;
    }
    return found;
  }

  std::optional<std::int64_t> optional_size(const Names& names) const {
    const Json* value = find(names);
    if (!value) return {};
    // Also 4096.0, which some tools write.
    const double number = value->is_number() ? value->get<double>() : 0.5;
    if (number != std::floor(number) || number < 1 || number > 0x1p40)
      refuse(std::string(names[0]) + ": " + shown(*value) + " is not a whole number from 1 to 2^40");
    return std::int64_t(number);
  }
  std::int64_t size(const Names& names) const {
    const auto value = optional_size(names);
    if (!value) refuse(std::string(names[0]) + ": is missing");
    return *value;
  }
  double number(const Names& names, double otherwise) const {
    const Json* value = find(names);
    if (value && !value->is_number()) refuse(std::string(names[0]) + ": " + shown(*value) + " is not a number");
    return value ? value->get<double>() : otherwise;
  }
  bool flag(const char* name, bool otherwise) const {
    const Json* value = find({name});
    if (value && !value->is_boolean()) refuse(std::string(name) + ": " + shown(*value) + " is neither true nor false");
    return value ? value->get<bool>() : otherwise;
  }
  void expect(const char* name, bool expected, const char* why) const {
    if (flag(name, expected) != expected)
      refuse(std::string(name) + ": " + (expected ? "false" : "true") + " is not modelled; " + why);
  }

  void note_what_is_left_out() {
    std::string dropouts;
    for (const char* name : {"attn_pdrop", "embd_pdrop", "resid_pdrop", "attention_dropout"})
      if (number({name}, 0) > 0) dropouts += (dropouts.empty() ? "" : ", ") + std::string(name);
    if (!dropouts.empty()) notes_.push_back("dropout is left out (" + dropouts + "): nothing is dropped, and no masks are kept");
    if (number({"initializer_range"}, 0.02) != 0.02)
      notes_.push_back("initializer_range is left out: the seeded start has a deviation of 0.02");
    if (find({"quantization_config"})) notes_.push_back("quantization_config is left out: the scenario's precision counts");
  }

  int layers(const Names& names) const {
    const std::int64_t count = size(names);
    if (count > 1 << 20) refuse(std::string(names[0]) + ": " + std::to_string(count) + " is more than 2^20");
    return int(count);
  }

  void divides(const Names& part, std::int64_t a, const Names& whole, std::int64_t b) const {
    if (b % a != 0)
      refuse(std::string(part[0]) + ": " + std::to_string(a) + " does not divide " + whole[0] + " " + std::to_string(b));
  }

  void gpt2() {
    const Names hidden = {"n_embd", "hidden_size"}, heads = {"n_head", "num_attention_heads"};
    shape_.layers = layers({"n_layer", "num_hidden_layers"});
    shape_.family = Family::gpt2;
    shape_.hidden = size(hidden);
    shape_.heads = shape_.kv_heads = size(heads);
    divides(heads, shape_.heads, hidden, shape_.hidden);
    shape_.head_dim = shape_.hidden / shape_.heads;
    shape_.ffn = optional_size({"n_inner"}).value_or(4 * shape_.hidden);
    shape_.vocab = size({"vocab_size"});
    const auto context = optional_size({"n_ctx"}), positions = optional_size({"n_positions", "max_position_embeddings"});
    shape_.positions = positions ? *positions : context ? *context : size({"n_positions"});
    if (context && *context != shape_.positions) notes_.push_back("n_ctx is left out: n_positions is the table's size");
    shape_.norm_eps = number({"layer_norm_epsilon"}, 1e-5);
    shape_.tied = flag("tie_word_embeddings", true);
    shape_.biases = true;
    expect("scale_attn_weights", true, "attention divides by the root of the head's size");
    expect("scale_attn_by_inverse_layer_idx", false, "attention is scaled the same in all layers");
    expect("reorder_and_upcast_attn", false, "attention is computed in the model's type");
    expect("add_cross_attention", false, "it adds parameters");
    const Json* activation = find({"activation_function"});
    const std::string name = activation && activation->is_string() ? activation->get<std::string>() : activation ? "" : "gelu_new";
    if (name.rfind("gelu", 0) != 0) refuse("activation_function: " + shown(*activation) + " is not modelled; gelu_new is");
    if (name == "gelu") notes_.push_back("activation_function: gelu is computed as gelu_new, by a tanh");
  }

  void llama(bool is_mistral) {
    const Names hidden = {"hidden_size"}, heads = {"num_attention_heads"}, kv_heads = {"num_key_value_heads"};
    shape_.layers = layers({"num_hidden_layers"});
    shape_.family = Family::llama;
    shape_.hidden = size(hidden);
    shape_.heads = size(heads);
    // Files from before grouped-query attention lack the key; Mistral's class would fill in 8.
    shape_.kv_heads = is_mistral ? size(kv_heads) : optional_size(kv_heads).value_or(shape_.heads);
    divides(kv_heads, shape_.kv_heads, heads, shape_.heads);
    const auto head_dim = optional_size({"head_dim"});
    if (!head_dim) divides(heads, shape_.heads, hidden, shape_.hidden);
    shape_.head_dim = head_dim.value_or(shape_.hidden / shape_.heads);
    shape_.ffn = size({"intermediate_size"});
    shape_.vocab = size({"vocab_size"});
    shape_.norm_eps = number({"rms_norm_eps"}, 1e-6);
    shape_.tied = flag("tie_word_embeddings", false);
    shape_.biases = false;
    expect("attention_bias", false, "Llama has no biases here");
    expect("mlp_bias", false, "Llama has no biases here");
    const Json* activation = find({"hidden_act"});
    if (activation && *activation != "silu") refuse("hidden_act: " + shown(*activation) + " is not modelled; silu is");
    positions(is_mistral);
    rotation();
  }

  void positions(bool is_mistral) {
    const auto given = optional_size({"max_position_embeddings"});
    const std::int64_t otherwise = is_mistral ? 4096 * 32 : 2048;
    shape_.positions = given.value_or(otherwise);
    if (!given) notes_.push_back("max_position_embeddings is not given: " + std::to_string(otherwise) + ", the class's default");
    if (!is_mistral) return;
    // Null means full attention; without the key the class fills in a window. Up to the window it is full attention, too.
    const auto given_window = optional_size({"sliding_window"});
    const std::int64_t window = given_window.value_or(config_.contains("sliding_window") ? shape_.positions : 4096);
    if (window >= shape_.positions) return;
    shape_.positions = window_ = window;
    notes_.push_back("sequences up to sliding_window, " + std::to_string(window) + ", are modelled: there attention is full");
  }

  void rotation() {
    shape_.rope_base = number({"rope_theta"}, 10000);
    for (const char* name : {"rope_scaling", "rope_parameters"}) {
      const Json* rope = find({name});
      if (!rope) continue;
      if (!rope->is_object()) refuse(std::string(name) + ": " + shown(*rope) + " is not an object");
      if (rope->contains("rope_theta") && (*rope)["rope_theta"].is_number()) shape_.rope_base = (*rope)["rope_theta"];
      const std::string type = rope->value("rope_type", rope->value("type", Json("default"))).dump();
      if (type != "\"default\"") notes_.push_back(std::string(name) + " " + type + " is left out: it changes no size");
    }
  }

  /// A file's name proves nothing: fixtures and fine-tunes carry the names of their models.
  void compare_count() {
    const std::int64_t count = parameters(shape_);
    std::string which = "no known model has so many";
    for (const Preset& preset : presets())
      if (preset.published_parameters == count) which = "as many as " + preset.name;
    notes_.insert(notes_.begin(), std::to_string(count) + " parameters: " + which);
  }

  std::filesystem::path file_;
  Json config_;
  TransformerShape shape_;
  std::int64_t window_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace

HfConfig read_hf_config(const std::filesystem::path& file) { return Reader(file).read(); }

}  // namespace shardsim::formats
