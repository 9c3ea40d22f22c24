// Explain: the text about schemes.
#include "app/explain.h"

#include <stdexcept>

#include "app/explain_pair.h"
#include "app/explain_system.h"
#include "app/table.h"
#include "app/yaml_reader.h"
#include "core/formulas.h"
#include "models/transformer_shape.h"

namespace shardsim {
namespace {

std::string padded(const std::string& text, std::size_t columns) {
  return text + std::string(text.size() < columns ? columns - text.size() : 1, ' ');
}

std::string options_text(const Options& options) {
  std::string text = options.declared().empty() ? "" : "Options:\n";
  for (const Option& option : options.declared()) {
    const std::string& value = options.text(option.name);
    text += "  " + option.name + ": " + value + (value == option.standard ? "" : ", not the default " + option.standard) + "; " +
            option.range() + "\n      " + option.about + "\n";
  }
  return text.empty() ? "" : text + "\n";
}

std::string flags(ShardSet shard) {
  std::string kept, cut;
  for (Band band : {Band::param, Band::grad, Band::opt}) {
    std::string& list = shard.has(band) ? cut : kept;
    list += (list.empty() ? "" : ", ") + std::string(name_of(band));
  }
  return "keeps its slice only of: " + (cut.empty() ? "nothing" : cut) +
         "\nkeeps in full:           " + (kept.empty() ? "nothing" : kept) + "\n";
}

std::string closed_forms(ShardSet shard) {
  constexpr int n = 8;
  const Precision fp32, mixed{Dtype::bf16, Dtype::bf16, Dtype::bf16};
  std::string text =
      "Closed forms of these flags at N = 8, one micro-batch, gradients resident:\n"
      "                                   fp32 (4 + 4 + 8)   bf16 (2 + 2 + 12)\n";
  const auto row = [&](const char* name, double (*value)(ShardSet, const Precision&)) {
    text += padded(name, 35) + padded(decimal_text(value(shard, fp32)), 19) + decimal_text(value(shard, mixed)) + "\n";
  };
  row("traffic per step, P(N-1)/N", [](ShardSet s, const Precision& p) { return formulas::traffic_units(s, p, 1, n, n); });
  row("resident, bytes per parameter", [](ShardSet s, const Precision& p) { return formulas::resident_bytes(s, p, n, true); });
  row("table's peak, bytes per parameter",
      [](ShardSet s, const Precision& p) { return formulas::table_peak_bytes(s, p, n, true); });
  return text;
}

struct VerbText {
  const char *call, *text;
};
constexpr VerbText verb_texts[] = {
    {"forward(", "computes a unit; needs its full parameters"},
    {"backward(", "computes a unit's gradient, in full; needs its full parameters"},
    {"all_reduce(", "sums what is kept of the gradient over the replicas; sends 2 (R-1)/R of it"},
    {"reduce_scatter(", "sums the owned slice of the gradient over the shards; sends (S-1)/S of all of it"},
    {"all_gather(", "collects a unit's full parameters from their owners; sends (S-1)/S of them"},
    {"release(", "ends the loan of a gathered unit"},
    {"clip(", "scales the gradient by its global norm; nothing when clipping is off"},
    {"adam(", "updates every owned slice"},
};

/// The verbs that the text calls.
std::string verbs(const std::string& text_of_class) {
  std::string text = "The verbs of its step():\n";
  for (const VerbText& verb : verb_texts)
    if (text_of_class.find(std::string(" ") + verb.call) != std::string::npos)
      text += "  " + padded(std::string(verb.call) + ")", 17) + verb.text + "\n";
  return text;
}

}  // namespace

std::string explain_scheme(const SchemeChoice& choice, const Registry& registry) {
  const std::unique_ptr<Scheme> scheme = choice.make();
  const std::string head = choice.label + ": " + choice.entry.summary + "\n\n" + options_text(choice.options);
  if (!scheme->has_closed_forms()) return head + explain_system(choice);
  const ShardSet shard = scheme->shard();
  const std::string code = class_text(choice.entry, registry);
  return head + flags(shard) + "\n" + closed_forms(shard) + "\n" + consequences(choice) + "\n" + verbs(code) + "\n" + code;
}

std::vector<SchemeChoice> schemes_in(const std::vector<std::string>& words, const Registry& registry) {
  std::vector<SchemeChoice> choices;
  for (std::size_t i = 0; i < words.size();) {
    const SchemeEntry* entry = registry.find(words[i]);
    if (!entry) {
      std::string known;
      for (const SchemeEntry& each : registry.entries()) known += (known.empty() ? "" : ", ") + each.name;
      throw ScenarioError("there is no scheme " + quoted(words[i]) + "; known schemes: " + known + "; or load it with --plugin");
    }
    Options options(entry->options);
    for (++i; i < words.size() && words[i].starts_with("--"); ++i) {
      const std::size_t equals = words[i].find('=');
      const std::string name = words[i].substr(2, equals - 2);
      if (equals == std::string::npos && i + 1 == words.size() && options.find(name))
        throw ScenarioError(entry->name + ": --" + name + ": has no value; write --" + name + " " + options.text(name));
      try {
        options.set(name, equals != std::string::npos ? words[i].substr(equals + 1) : i + 1 < words.size() ? words[++i] : "");
      } catch (const std::invalid_argument& error) {
        throw ScenarioError(entry->name + ": --" + name + ": " + error.what());
      }
    }
    choices.push_back({*entry, options});
    try {
      choices.back().make();
    } catch (const std::invalid_argument& error) {
      throw ScenarioError(choices.back().label + ": " + error.what());
    }
  }
  return choices;
}

std::string list_schemes(const Registry& registry) {
  std::string text;
  for (const SchemeEntry& entry : registry.entries()) text += padded(entry.name, 14) + entry.summary + "\n";
  return text;
}

std::string list_models() {
  const auto right = [](const std::string& text, std::size_t columns) {
    return std::string(text.size() < columns ? columns - text.size() : 1, ' ') + text;
  };
  std::string text = padded("name", 12) + right("parameters", 12) + right("published", 13) + right("layers", 8);
  for (const char* size : {"hidden", "heads", "kv", "ffn", "vocab"}) text += right(size, 7);
  text += "  published in\n";
  for (const Preset& preset : presets()) {
    const TransformerShape& shape = preset.shape;
    text += padded(preset.name, 12) + right(std::to_string(parameters(shape)), 12);
    text += right(std::to_string(preset.published_parameters), 13) + right(std::to_string(shape.layers), 8);
    for (std::int64_t size : {shape.hidden, shape.heads, shape.kv_heads, shape.ffn, shape.vocab})
      text += right(std::to_string(size), 7);
    text += "  " + preset.source + "\n";
  }
  text +=
      "\nothers: {hf_config: config.json} of gpt2, llama or mistral; {kind: gpt2 | llama, layers, hidden, heads, vocab, ...};\n";
  return text + "mlp, a multi-layer perceptron: {kind: mlp, widths: [in, hidden..., out], activation: tanh, loss: mse}\n";
}

}  // namespace shardsim
