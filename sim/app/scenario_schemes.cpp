// Reading which schemes run: names, options and the labels that they make.
#include "app/scenario_schemes.h"

#include <algorithm>
#include <stdexcept>

#include "app/fields.h"

namespace shardsim {
namespace {

const SchemeEntry& entry_of(const YamlNode& node, const Registry& registry) {
  std::vector<std::string> known;
  for (const SchemeEntry& entry : registry.entries()) known.push_back(entry.name);
  if (node.kind == YamlNode::Kind::scalar && !registry.find(node.text))
    refuse(node, "there is no scheme " + quoted(node.text) + "; known schemes: " + joined(known));
  return registry.entries()[choice_of(node, known)];
}

void read_option(const YamlNode& node, Options& options) {
  const Option* option = options.find(node.name);
  if (option && node.kind != YamlNode::Kind::scalar)
    refuse(node,
           (node.kind == YamlNode::Kind::nothing ? "has no value" : "is " + in_words(node)) + ", but has to be " + option->range());
  const bool is_word = option && std::count(option->words.begin(), option->words.end(), node.text) > 0;
  if (option && node.quoted && option->kind != Option::Kind::text && !is_word)
    refuse(node, quoted(node.text) + " is a text, but has to be " + option->range() + "; remove the quotes");
  try {
    options.set(node.name, node.text);
  } catch (const std::invalid_argument& error) {
    refuse(node, error.what());
  }
}

SchemeChoice choice_of(const YamlNode& node, const Registry& registry) {
  if (node.kind != YamlNode::Kind::map) return entry_of(node, registry);
  const YamlNode* name = node.child("name");
  if (!name) refuse(node, "the key 'name' is missing; write for example {name: zero3}");
  const SchemeEntry& entry = entry_of(*name, registry);
  Options options(entry.options);
  for (const YamlNode& field : node.children) {
    if (&field == name) continue;
    if (field.name == "name") refuse(field, "is given twice; remove one");
    read_option(field, options);
  }
  const SchemeChoice choice(entry, options);
  try {
    if (node.children.size() > 1) choice.make();  // so that what contradicts is refused before anything runs
  } catch (const std::invalid_argument& error) {
    refuse(node, error.what());
  }
  return choice;
}

}  // namespace

std::vector<SchemeChoice> read_schemes(const YamlNode& node, const Registry& registry) {
  std::vector<SchemeChoice> choices;
  // `schemes: dp` can only mean one thing.
  const bool is_one = node.kind == YamlNode::Kind::scalar || node.child("name");
  const std::vector<YamlNode>& items = is_one ? std::vector<YamlNode>{node} : list_of(node, "[dp, zero1, zero2, zero3]");
  for (const YamlNode& item : items) {
    SchemeChoice choice = choice_of(item, registry);
    int same_label = 1;
    for (const SchemeChoice& other : choices) {
      if (choice.entry.name == other.entry.name && choice.options == other.options)
        refuse(item, "the scheme " + shardsim::quoted(choice.label) + " is listed twice" +
                         (choice.label == other.label ? "" : ", first as " + quoted(other.label)) + "; remove one");
      if (choice.entry.name + choice.options.suffix() == other.entry.name + other.options.suffix()) ++same_label;
    }
    if (same_label > 1) choice.label += "-" + std::to_string(same_label);
    choices.push_back(std::move(choice));
  }
  return choices;
}

const SchemeChoice* find_choice(const std::vector<SchemeChoice>& choices, const std::string& called) {
  const SchemeChoice* found = nullptr;
  int of_this_name = 0;
  for (const SchemeChoice& choice : choices) {
    if (choice.label == called) return &choice;
    if (choice.entry.name == called) found = &choice, ++of_this_name;
  }
  return of_this_name == 1 ? found : nullptr;
}

std::string labels(const std::vector<SchemeChoice>& choices) {
  std::vector<std::string> texts;
  for (const SchemeChoice& choice : choices) texts.push_back(choice.label);
  return joined(texts);
}

}  // namespace shardsim
