// Fields: the values of a scenario's map, each read as one type within one range. What does not fit is refused by name and line.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "app/yaml_reader.h"

namespace shardsim {

/// A map whose keys are all known and occur once.
class Fields {
 public:
  /// Throws ScenarioError for a node that is no map, and for an unknown or repeated key. `defaults` receives what is left out.
  Fields(const YamlNode&, std::initializer_list<const char*> known, std::vector<std::string>& defaults);

  /// The value of `key`; null if the key is missing.
  const YamlNode* find(const std::string& key) const;
  /// Refuses a missing key, with an example of what to write.
  const YamlNode& need(const std::string& key, const std::string& example) const;

  /// read(node) if the key is there; otherwise `otherwise`, and "key: in_words" is noted as a default.
  template <class T, class Read>
  T value_or(const std::string& key, T otherwise, const std::string& in_words, Read read) const {
    if (const YamlNode* node = find(key)) return read(*node);
    defaults_.push_back((map_.key.empty() ? "" : map_.key + ".") + key + ": " + in_words);
    return otherwise;
  }
  std::int64_t integer_or(const std::string& key, std::int64_t otherwise, std::int64_t low, std::int64_t high) const;
  bool switch_or(const std::string& key, bool otherwise) const;

 private:
  const YamlNode& map_;
  std::vector<std::string>& defaults_;
};

// Each throws ScenarioError for another type or a value out of range.
std::string text_of(const YamlNode&);
/// An integer in [low, high]; 5e8 is one.
std::int64_t integer_of(const YamlNode&, std::int64_t low, std::int64_t high);
double number_of(const YamlNode&);
/// The number as a float, between `low` and `high`; the borders are out of range if `open`. `must` says so in words.
float float_of(const YamlNode&, bool (*fits)(float), const char* must);
/// A number with a unit, which may not be left out: 25MB, 1.2GiB; 5us, 1.5ms.
double bytes_of(const YamlNode&);
double seconds_of(const YamlNode&);
/// A share, from 0 to 1: 0.1 or 10%.
double share_of(const YamlNode&);
/// The same of any text; nothing for what is no share.
std::optional<double> share_in(const std::string& text);
/// "'5' is no share; ...".
std::string refusal_of_share(const std::string& text);
/// A plain decimal number (`8`, `0.5`, `1e-3`); nothing for anything else, infinite ones included.
std::optional<double> number_in(const std::string& text);
/// The position of the text in `known`.
std::size_t choice_of(const YamlNode&, const std::vector<std::string>& known);
/// on or off (true and false are taken too).
bool switch_of(const YamlNode&);
/// Refuses a key that stands in the map for the second time.
void refuse_if_repeated(const YamlNode& map, const YamlNode& field);
/// Refuses anything that is not a list.
const std::vector<YamlNode>& list_of(const YamlNode&, const char* example);

std::string joined(const std::vector<std::string>&);

}  // namespace shardsim
