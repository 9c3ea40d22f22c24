// Reading what a scenario trains: the perceptron and its data, the twin, and what only language models have.
#include "app/scenario_model.h"

#include <algorithm>
#include <limits>

#include "app/scenario_parts.h"
#include "core/error.h"
#include "formats/bytes.h"
#include "formats/npy.h"

namespace shardsim {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t most = std::numeric_limits<int>::max() - 1;
constexpr std::int64_t most_parameters = std::int64_t{1} << 50;

MlpChoice read_mlp(const YamlNode& node, Scenario& scenario, std::vector<std::string>& defaults) {
  const Fields fields(node, {"kind", "widths", "activation", "loss", "theta0"}, defaults);
  MlpChoice mlp;
  fields.need("kind", "kind: mlp");
  const YamlNode& widths = fields.need("widths", "widths: [8, 32, 4]");
  for (const YamlNode& width : list_of(widths, "[8, 32, 4]")) mlp.widths.push_back(integer_of(width, 1, most));
  if (mlp.widths.size() < 2) refuse(widths, "holds one width, but an input's and an output's are needed; write it as [8, 32, 4]");
  double parameters = 0;
  for (std::size_t i = 0; i + 1 < mlp.widths.size(); ++i) parameters += double(mlp.widths[i] + 1) * double(mlp.widths[i + 1]);
  if (parameters > double(most_parameters)) refuse(widths, "make a model of more than 2^50 parameters; choose smaller ones");
  mlp.activation = fields.value_or("activation", std::string("tanh"), "tanh", [](const YamlNode& value) {
    choice_of(value, {"tanh"});
    return value.text;
  });
  mlp.loss = fields.value_or("loss", std::string("mse"), "mse", [](const YamlNode& value) {
    choice_of(value, {"mse"});
    return value.text;
  });
  if (const YamlNode* theta0 = fields.find("theta0")) mlp.theta0 = named_file(scenario, *theta0);
  return mlp;
}

/// The shape of a .npy file, all of which is read and checked; what is wrong is said with the scenario's line.
std::vector<std::int64_t> checked_shape(const YamlNode& node, const fs::path& file, std::size_t dimensions) {
  try {
    return formats::read_npy(file, dimensions).shape;
  } catch (const ScenarioError& error) {
    refuse(node, error.what());
  }
}

void check_columns(const YamlNode& node, const fs::path& file, std::int64_t columns, std::int64_t width, const char* which) {
  if (columns != width)
    refuse(node, file.string() + ": has " + std::to_string(columns) + " columns, but the model's " + which + " width is " +
                     std::to_string(width));
}

/// The data of a transformer: a seeded language, or a text's bytes.
void read_language(const Fields& root, Scenario& scenario, std::vector<std::string>& defaults) {
  const bool needed = scenario.numerics != Numerics::off;
  const YamlNode* node = root.find("data");
  const std::int64_t vocab = real_shape(scenario).vocab;
  if (!node) {
    scenario.data.successors = int(std::min<std::int64_t>(scenario.data.successors, vocab));
    if (needed) defaults.push_back("data: {language: {successors: " + std::to_string(scenario.data.successors) + "}}");
    return;
  }
  const Fields fields(*node, {"language", "text"}, defaults);
  if (fields.find("language") && fields.find("text"))
    refuse(*node, "has a language and a text; tokens come from one of them, so remove the other");
  if (const YamlNode* language = fields.find("language")) {
    const YamlNode& successors = Fields(*language, {"successors"}, defaults).need("successors", "language: {successors: 4}");
    scenario.data.successors = int(integer_of(successors, 1, 64));
    if (needed && scenario.data.successors > vocab)
      refuse(successors, quoted(successors.text) + " are more than the vocabulary of " + std::to_string(vocab) + " tokens");
    return;
  }
  const YamlNode& text = fields.need("text", "data: {text: file.txt} or {language: {successors: 4}}");
  scenario.data.text = named_file(scenario, text);
  try {
    formats::read_bytes(scenario.data.text);
  } catch (const ScenarioError& error) {
    refuse(text, error.what());
  }
  if (needed && vocab < 256)
    refuse(text, "a text's bytes are 256 tokens, and the arithmetic has a vocabulary of " + std::to_string(vocab) +
                     "; choose a larger one (numerics.vocab of a twin, model.vocab otherwise)");
}

void read_data(const Fields& root, Scenario& scenario, std::vector<std::string>& defaults) {
  if (scenario.transformer) return read_language(root, scenario, defaults);
  const bool needed = scenario.numerics != Numerics::off;
  const YamlNode* node = root.find("data");
  if (!node) {
    if (needed) defaults.push_back("data: {teacher: {rows: " + std::to_string(scenario.data.rows) + "}}");
    return;
  }
  const Fields fields(*node, {"x", "y", "teacher"}, defaults);
  if (const YamlNode* teacher = fields.find("teacher")) {
    if (fields.find("x") || fields.find("y"))
      refuse(*teacher, "stands beside x or y; data comes from a teacher or from files, not from both");
    scenario.data.rows = integer_of(Fields(*teacher, {"rows"}, defaults).need("rows", "teacher: {rows: 4096}"), 1, most);
    return;
  }
  const YamlNode &x = fields.need("x", "data: {x: x.npy, y: y.npy}"), &y = fields.need("y", "data: {x: x.npy, y: y.npy}");
  scenario.data.x = named_file(scenario, x), scenario.data.y = named_file(scenario, y);
  if (scenario.numerics == Numerics::twin)
    refuse(x, "files have the full widths, but a twin has smaller ones; use numerics: full or a teacher");
  const auto of_x = checked_shape(x, scenario.data.x, 2), of_y = checked_shape(y, scenario.data.y, 2);
  check_columns(x, scenario.data.x, of_x[1], scenario.model.widths.front(), "input");
  check_columns(y, scenario.data.y, of_y[1], scenario.model.widths.back(), "output");
  if (of_x[0] == 0) refuse(x, scenario.data.x.string() + ": has no rows");
  if (of_x[0] != of_y[0])
    refuse(y, scenario.data.y.string() + ": has " + std::to_string(of_y[0]) + " rows, but x has " + std::to_string(of_x[0]));
}

/// The twin of a transformer: `twin`, or a map of its sizes.
void read_twin(const YamlNode& node, Scenario& scenario, std::vector<std::string>& defaults) {
  TransformerChoice& choice = *scenario.transformer;
  scenario.numerics = Numerics::twin;
  YamlNode map = node;
  if (node.kind == YamlNode::Kind::scalar) map.kind = YamlNode::Kind::map;
  const Fields fields(map, {"mode", "hidden", "heads", "vocab", "sequence"}, defaults);
  if (node.kind == YamlNode::Kind::map) choice_of(fields.need("mode", "numerics: {mode: twin, hidden: 32}"), {"twin"});
  choice.twin_hidden = fields.integer_or("hidden", choice.twin_hidden, 1, most);
  choice.twin_heads = fields.integer_or("heads", choice.twin_heads, 1, most);
  choice.twin_vocab = fields.integer_or("vocab", choice.twin_vocab, 2, most);
  choice.twin_sequence = fields.integer_or("sequence", choice.twin_sequence, 1, most);
  if (const std::string why = impossible(real_shape(scenario)); !why.empty())
    refuse(node, "the twin is impossible: " + why + "; choose other sizes of the twin");
}

void read_numerics(const Fields& root, Scenario& scenario, std::vector<std::string>& defaults) {
  const YamlNode* node = root.find("numerics");
  if (!node) {
    defaults.push_back("numerics: full");
    return;
  }
  if (node->kind == YamlNode::Kind::map) {
    if (scenario.transformer) return read_twin(*node, scenario, defaults);
    const Fields fields(*node, {"mode", "width"}, defaults);
    const YamlNode& mode = fields.need("mode", "numerics: {mode: twin, width: 32}");
    choice_of(mode, {"twin"});
    scenario.numerics = Numerics::twin;
    scenario.twin_width = integer_of(fields.need("width", "numerics: {mode: twin, width: 32}"), 1, most);
    return;
  }
  if (node->kind == YamlNode::Kind::scalar && node->text == "twin") {
    if (scenario.transformer) return read_twin(*node, scenario, defaults);
    refuse(*node, "a twin needs a width; write it as {mode: twin, width: 32}");
  }
  if (node->kind == YamlNode::Kind::scalar && node->text != "full" && node->text != "off")
    refuse(*node, "unknown value " + quoted(node->text) + "; known values: full, off, " +
                      (scenario.transformer ? "twin, {mode: twin, hidden: 32}" : "{mode: twin, width: 32}"));
  scenario.numerics = choice_of(*node, {"full", "off"}) == 0 ? Numerics::full : Numerics::off;
}

void check_theta0(const YamlNode& theta0, const Scenario& scenario, std::int64_t parameters) {
  if (scenario.numerics == Numerics::twin)
    refuse(theta0, "a file has the full widths, but a twin has smaller ones; use numerics: full or leave theta0 out");
  const std::int64_t there = checked_shape(theta0, scenario.model.theta0, 1)[0];
  if (there != parameters)
    refuse(theta0, scenario.model.theta0.string() + ": holds " + std::to_string(there) + " numbers, but the model has " +
                       std::to_string(parameters) + " parameters");
}

/// A perceptron is a map of kind mlp, and a map that has widths and no kind: what is missing is said by its reader.
bool is_perceptron(const YamlNode& model) {
  if (model.kind != YamlNode::Kind::map) return model.kind != YamlNode::Kind::scalar;
  const YamlNode* kind = model.child("kind");
  return kind ? choice_of(*kind, {"mlp", "gpt2", "llama"}) == 0 : !model.child("preset") && !model.child("hf_config");
}

}  // namespace

void read_model_and_data(const Fields& root, Scenario& scenario, std::vector<std::string>& defaults) {
  const YamlNode& model = root.need("model", "model: gpt2, or {kind: mlp, widths: [8, 32, 4]}");
  if (model.kind == YamlNode::Kind::list || (model.kind == YamlNode::Kind::map && !model.child("kind") && !model.child("preset") &&
                                             !model.child("hf_config") && !model.child("widths")))
    refuse(model,
           "does not say which model; write a preset's name, {kind: gpt2, layers: 4, hidden: 64, heads: 4, vocab: 256}, "
           "{hf_config: config.json} or {kind: mlp, widths: [8, 32, 4]}");
  std::int64_t parameters = 0;
  if (is_perceptron(model)) {
    scenario.model = read_mlp(model, scenario, defaults);
    read_numerics(root, scenario, defaults);
    const std::vector<std::int64_t>& widths = scenario.model.widths;
    for (const std::int64_t width : widths)
      if (double(scenario.micro_batch) * double(width) > double(most_parameters))
        refuse(*model.child("widths"), "and batch.micro make an activation of more than 2^50 numbers; choose smaller ones");
    for (std::size_t i = 0; i + 1 < widths.size(); ++i) parameters += (widths[i] + 1) * widths[i + 1];
    if (const YamlNode* batch = root.find("batch"))
      if (const YamlNode* sequence = batch->child("sequence")) refuse(*sequence, "a perceptron has no sequence; remove the key");
  } else {
    read_transformer(root, model, scenario, defaults);
    read_numerics(root, scenario, defaults);
    parameters = shardsim::parameters(scenario.transformer->shape);
    const double tokens = double(scenario.micro_batch) * double(scenario.transformer->sequence);
    const TransformerShape& shape = scenario.transformer->shape;
    const double scores =
        scenario.transformer->plan.flash_attention ? 0 : double(shape.heads) * double(scenario.transformer->sequence);
    if (tokens * std::max(double(std::max({shape.vocab, shape.ffn, shape.hidden})), scores) > double(most_parameters))
      refuse(model, "and the batch make an activation of more than 2^50 numbers; choose a smaller batch");
  }
  if (!scenario.model.theta0.empty()) check_theta0(*model.child("theta0"), scenario, parameters);
  read_data(root, scenario, defaults);
}

}  // namespace shardsim
