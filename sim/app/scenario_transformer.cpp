// Reading a scenario's transformer: a preset, a Hugging Face config or sizes, the plan of its kernels, and its twin.
#include <algorithm>
#include <limits>
#include <optional>

#include "app/scenario_model.h"
#include "app/scenario_parts.h"
#include "core/error.h"
#include "formats/hf_config.h"

namespace shardsim {
namespace {

constexpr std::int64_t most = std::numeric_limits<int>::max() - 1;

std::string known_models() {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.push_back(preset.name);
  return joined(names) +
         "; or write it as {kind: gpt2, layers: 4, ...}, {hf_config: config.json} or {kind: mlp, widths: [8, 32, 4]}";
}

const Preset& preset_of(const YamlNode& node) {
  if (const Preset* preset = find_preset(text_of(node))) return *preset;
  refuse(node, "there is no model " + quoted(node.text) + "; known models: " + known_models());
}

/// The shape that sizes are counted from: published, or empty.
TransformerShape base_shape(const Fields& fields, Scenario& scenario, std::string& name) {
  if (const YamlNode* node = fields.find("preset")) {
    const Preset& preset = preset_of(*node);
    name = preset.name;
    return preset.shape;
  }
  if (const YamlNode* node = fields.find("hf_config")) {
    const std::filesystem::path file = named_file(scenario, *node);
    name = file.filename().string();
    try {
      formats::HfConfig config = formats::read_hf_config(file);
      for (const std::string& note : config.notes) scenario.notes.push_back(name + ": " + note);
      if (const YamlNode* positions = fields.find("positions"); positions && config.window > 0)
        if (integer_of(*positions, 1, most) > config.window)
          refuse(*positions, "beyond the sliding window of " + std::to_string(config.window) +
                                 " tokens attention is another one, which is not modelled");
      return config.shape;
    } catch (const ScenarioError& error) {
      refuse(*node, error.what());
    }
  }
  const YamlNode& kind = fields.need("kind", "kind: gpt2, kind: llama, kind: mlp, preset: gpt2 or hf_config: config.json");
  TransformerShape shape;
  shape.family = choice_of(kind, {"gpt2", "llama", "mlp"}) == 0 ? Family::gpt2 : Family::llama;
  shape.biases = shape.tied = shape.family == Family::gpt2;
  shape.positions = shape.family == Family::gpt2 ? 1024 : 4096;
  name = kind.text;
  for (const std::string size : {"layers: 4", "hidden: 64", "heads: 4", "vocab: 256"})
    fields.need(size.substr(0, size.find(':')), size);
  return shape;
}

void read_sizes(const Fields& fields, TransformerShape& shape) {
  const TransformerShape base = shape;
  const auto size = [&fields](const char* key, std::int64_t& value) {
    if (const YamlNode* node = fields.find(key)) value = integer_of(*node, 1, std::string(key) == "layers" ? 1 << 16 : most);
    return fields.find(key) != nullptr;
  };
  std::int64_t layers = shape.layers;
  size("layers", layers);
  shape.layers = int(layers);
  size("hidden", shape.hidden), size("heads", shape.heads), size("vocab", shape.vocab), size("positions", shape.positions);
  // What is not said follows what is: as many kv heads as heads, heads that fill the hidden size, and the family's ratio of ffn.
  if (!size("kv_heads", shape.kv_heads) && (base.kv_heads == 0 || base.kv_heads == base.heads)) shape.kv_heads = shape.heads;
  if (!size("head_dim", shape.head_dim) && (base.head_dim == 0 || shape.hidden != base.hidden || shape.heads != base.heads))
    shape.head_dim = shape.hidden / std::max<std::int64_t>(1, shape.heads);
  if (!size("ffn", shape.ffn) && base.ffn == 0) shape.ffn = 4 * shape.hidden;
  if (const YamlNode* node = fields.find("tied")) shape.tied = switch_of(*node);
  if (const YamlNode* node = fields.find("norm_eps")) shape.norm_eps = number_of(*node);
  if (const YamlNode* node = fields.find("rope_base")) {
    if (shape.family != Family::llama) refuse(*node, "gpt2 has learned positions and no rotary ones; remove the key");
    shape.rope_base = number_of(*node);
  }
}

Recompute recompute_of(const YamlNode& node, std::vector<std::string>& defaults) {
  using Kind = Recompute::Kind;
  Recompute recompute;
  if (node.kind == YamlNode::Kind::scalar) {
    recompute.kind = Kind(choice_of(node, {"none", "selective", "full"}));
    return recompute;
  }
  const Fields fields(node, {"every", "early_stop"}, defaults);
  recompute.kind = Kind::full;
  recompute.every = int(fields.integer_or("every", 1, 1, most));
  recompute.early_stop = fields.switch_or("early_stop", true);
  return recompute;
}

TransformerPlan read_plan(const Fields& fields, const TransformerShape& shape, std::vector<std::string>& defaults) {
  TransformerPlan plan;
  plan.flash_attention = fields.value_or("attention", true, "flash", [](const YamlNode& node) {
    return choice_of(node, {"flash", "explicit"}) == 0;
  });
  const char* own = shape.family == Family::gpt2 ? "gelu" : "swiglu";
  const char* others = shape.family == Family::gpt2 ? "swiglu" : "gelu";
  if (const YamlNode* node = fields.find(others))
    refuse(*node, std::string("this model has no ") + others + "; its activation is set by " + own);
  plan.fused_activation = fields.value_or(own, true, "fused", [](const YamlNode& node) {
    return choice_of(node, {"fused", "written_out"}) == 0;
  });
  using Loss = TransformerPlan::Loss;
  plan.loss = fields.value_or("loss", Loss::fused, "fused", [](const YamlNode& node) {
    return Loss(choice_of(node, {"fused", "unfused", "fp32", "fp32_fused"}));
  });
  const auto share = [&](const char* key) {
    const YamlNode* node = fields.find(key);
    if (!node) return 0.0;
    if (shape.family == Family::llama) refuse(*node, "Llama has no dropout; remove the key");
    const double value = share_of(*node);
    if (value == 1) refuse(*node, quoted(node->text) + " would drop everything; write a share below 1");
    return value;
  };
  plan.hidden_dropout = share("hidden_dropout"), plan.attention_dropout = share("attention_dropout");
  if (plan.attention_dropout > 0 && plan.flash_attention)
    refuse(
        *fields.find("attention_dropout"),
        "a flash kernel draws its mask twice and keeps nothing of it, which costs no memory and is not modelled; remove the key, "
        "or use attention: explicit");
  if (const YamlNode* node = fields.find("scores_buffer")) {
    plan.scores_buffer = switch_of(*node);
    if (plan.scores_buffer && plan.flash_attention) refuse(*node, "a flash kernel has no scores; use attention: explicit");
  }
  if (const YamlNode* node = fields.find("mask_buffers")) plan.mask_buffers = switch_of(*node);
  if (const YamlNode* node = fields.find("keeps_logits")) {
    plan.keeps_logits = switch_of(*node);
    if (plan.keeps_logits && (plan.loss == Loss::fused || plan.loss == Loss::fp32_fused))
      refuse(*node, "a fused loss puts the gradient where the logits were; choose loss: unfused or fp32");
  }
  plan.recompute =
      fields.value_or("recompute", Recompute{}, "none", [&](const YamlNode& node) { return recompute_of(node, defaults); });
  return plan;
}

}  // namespace

void read_transformer(const Fields& root, const YamlNode& model, Scenario& scenario, std::vector<std::string>& defaults) {
  TransformerChoice choice;
  const bool is_name = model.kind == YamlNode::Kind::scalar;
  YamlNode map = model;
  if (is_name) {
    preset_of(model);
    map = {};
    map.kind = YamlNode::Kind::map, map.key = "model", map.origin = model.origin, map.line = model.line;
    map.children.push_back(model);
    map.children.back().name = "preset";
  }
  const Fields fields(map, {"preset",       "hf_config", "kind",         "layers",       "hidden",         "heads",
                            "kv_heads",     "head_dim",  "ffn",          "vocab",        "positions",      "tied",
                            "norm_eps",     "rope_base", "attention",    "gelu",         "swiglu",         "loss",
                            "recompute",    "theta0",    "mask_buffers", "keeps_logits", "hidden_dropout", "attention_dropout",
                            "scores_buffer"},
                      defaults);
  int sources = 0;
  for (const char* source : {"preset", "hf_config", "kind"}) sources += fields.find(source) != nullptr;
  if (sources > 1) refuse(model, "has more than one of preset, hf_config and kind; keep one");
  choice.shape = base_shape(fields, scenario, choice.name);
  read_sizes(fields, choice.shape);
  if (const std::string why = impossible(choice.shape); !why.empty()) {
    const YamlNode* at = map.child(why.substr(0, why.find(':')));
    if (at && !is_name) refuse(*at, why.substr(why.find(':') + 2));
    refuse(model, why);
  }
  choice.plan = read_plan(fields, choice.shape, defaults);
  if (const YamlNode* theta0 = fields.find("theta0")) scenario.model.theta0 = named_file(scenario, *theta0);

  choice.sequence = choice.shape.positions;
  const YamlNode* batch = root.find("batch");
  if (const YamlNode* sequence = batch ? batch->child("sequence") : nullptr) {
    choice.sequence = integer_of(*sequence, 1, most);
    if (choice.sequence > choice.shape.positions)
      refuse(*sequence, quoted(sequence->text) + " is longer than the model's " + std::to_string(choice.shape.positions) +
                            " positions; choose a shorter sequence or raise model.positions");
  } else {
    defaults.push_back("batch.sequence: " + std::to_string(choice.sequence));
  }
  scenario.transformer = choice;
}

std::int64_t real_sequence(const Scenario& scenario) {
  const TransformerChoice& choice = *scenario.transformer;
  return scenario.numerics == Numerics::twin ? std::min(choice.sequence, choice.twin_sequence) : choice.sequence;
}

TransformerShape real_shape(const Scenario& scenario) {
  const TransformerChoice& choice = *scenario.transformer;
  TransformerShape real = choice.shape;
  if (scenario.numerics != Numerics::twin) return real;
  real.hidden = std::min(choice.shape.hidden, choice.twin_hidden);
  real.heads = std::min(choice.shape.heads, choice.twin_heads);
  real.head_dim = real.hidden / real.heads;
  real.kv_heads = std::max<std::int64_t>(1, real.heads * choice.shape.kv_heads / choice.shape.heads);
  while (real.heads % real.kv_heads != 0) --real.kv_heads;
  real.ffn = std::max<std::int64_t>(1, choice.shape.ffn * real.hidden / choice.shape.hidden);
  real.vocab = std::min(choice.shape.vocab, choice.twin_vocab);
  real.positions = real_sequence(scenario);
  return real;
}

}  // namespace shardsim
