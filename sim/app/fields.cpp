// Fields: reading typed values and saying what is wrong with the others.
#include "app/fields.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include "core/quantity.h"

namespace shardsim {
namespace {

const std::string& scalar(const YamlNode& node, const char* wanted) {
  if (node.kind == YamlNode::Kind::nothing) refuse(node, std::string("has no value; ") + wanted + " is expected");
  if (node.kind != YamlNode::Kind::scalar) refuse(node, "is " + in_words(node) + ", but " + wanted + " is expected");
  return node.text;
}

double quantity(const YamlNode& node, Measure measure, const char* example) {
  const std::string& text = scalar(node, "a quantity with a unit");
  if (number_in(text)) refuse(node, quoted(text) + " has no unit; write for example " + example);
  try {
    return parse_quantity(text, measure);
  } catch (const std::invalid_argument& error) {
    refuse(node, error.what());
  }
}

}  // namespace

Fields::Fields(const YamlNode& map, std::initializer_list<const char*> known, std::vector<std::string>& defaults)
    : map_(map), defaults_(defaults) {
  const std::vector<std::string> names(known.begin(), known.end());
  if (map.kind != YamlNode::Kind::map) refuse(map, "is " + in_words(map) + ", but a map is expected; known keys: " + joined(names));
  for (const YamlNode& field : map.children) {
    if (std::find(names.begin(), names.end(), field.name) == names.end())
      refuse(field, "unknown key; known keys: " + joined(names));
    refuse_if_repeated(map, field);
  }
}

const YamlNode* Fields::find(const std::string& key) const { return map_.child(key); }

const YamlNode& Fields::need(const std::string& key, const std::string& example) const {
  const YamlNode* node = find(key);
  if (!node) refuse(map_, "the key " + quoted(key) + " is missing; write for example '" + example + "'");
  return *node;
}

std::int64_t Fields::integer_or(const std::string& key, std::int64_t otherwise, std::int64_t low, std::int64_t high) const {
  return value_or(key, otherwise, std::to_string(otherwise), [&](const YamlNode& node) { return integer_of(node, low, high); });
}

bool Fields::switch_or(const std::string& key, bool otherwise) const {
  return value_or(key, otherwise, otherwise ? "on" : "off", switch_of);
}

std::string text_of(const YamlNode& node) {
  const std::string& text = scalar(node, "a text");
  if (text.empty()) refuse(node, "is an empty text");
  return text;
}

double number_of(const YamlNode& node) {
  const std::string& text = scalar(node, "a number");
  if (node.quoted) refuse(node, quoted(text) + " is a text, but a number is expected; remove the quotes");
  const auto value = number_in(text);
  const std::size_t first = text.find_first_not_of("+-");
  if (value && text.size() > first + 1 && text[first] == '0' && std::isdigit(static_cast<unsigned char>(text[first + 1])))
    refuse(node, quoted(text) + " begins with a zero, which may mean an octal number; write it without");
  if (!value) refuse(node, quoted(text) + " is not a number, or too large for one; write it as 8, 0.5 or 1e-3, without a unit");
  return *value;
}

std::int64_t integer_of(const YamlNode& node, std::int64_t low, std::int64_t high) {
  const double value = number_of(node);
  constexpr std::int64_t largest = 9007199254740992;  // beyond 2^53 a double no longer holds every integer
  const std::string range = "from " + std::to_string(low) + " to " + std::to_string(std::min(high, largest));
  if (value != std::floor(value)) refuse(node, quoted(node.text) + " is not a whole number; write one " + range);
  if (value < double(low) || value > double(high) || std::abs(value) > double(largest))
    refuse(node, quoted(node.text) + " is out of range; write a whole number " + range);
  return std::int64_t(value);
}

float float_of(const YamlNode& node, bool (*fits)(float), const char* must) {
  const double value = number_of(node);
  const float rounded = float(value);
  // In fp32, where the arithmetic is: 1e-60 would be 0 there.
  if (!std::isfinite(rounded)) refuse(node, quoted(node.text) + " is out of range; a 32-bit number is at most 3.4e38");
  if (!fits(rounded)) refuse(node, quoted(node.text) + " is out of range; it " + must + " (as a 32-bit number)");
  return rounded;
}

double bytes_of(const YamlNode& node) { return quantity(node, Measure::bytes, "25MB"); }
double seconds_of(const YamlNode& node) { return quantity(node, Measure::seconds, "5us"); }

double share_of(const YamlNode& node) {
  const std::string& text = scalar(node, "a share");
  const std::optional<double> share = share_in(text);
  if (!share) refuse(node, refusal_of_share(text));
  return *share;
}

std::optional<double> share_in(const std::string& text) {
  const bool is_percentage = text.ends_with('%');
  std::string number = text.substr(0, text.size() - is_percentage);
  while (is_percentage && number.ends_with(' ')) number.pop_back();
  std::optional<double> share = number_in(number);
  if (share && is_percentage) *share /= 100;
  return share && *share >= 0 && *share <= 1 ? share : std::nullopt;
}

std::string refusal_of_share(const std::string& text) {
  return quoted(text) + " is no share; write a number from 0 to 1 or a percentage, as in 0.1 or 10%";
}

std::optional<double> number_in(const std::string& text) {
  // from_chars would also take "inf" and "nan".
  if (text.find_first_of("0123456789") > 2) return {};
  const char *begin = text.data() + (text[0] == '+'), *end = text.data() + text.size();
  double value = 0;
  const auto [rest, error] = std::from_chars(begin, end, value);
  return error == std::errc() && rest == end && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::size_t choice_of(const YamlNode& node, const std::vector<std::string>& known) {
  const std::string& text = scalar(node, "a name");
  const auto found = std::find(known.begin(), known.end(), text);
  if (found == known.end()) refuse(node, "unknown value " + quoted(text) + "; known values: " + joined(known));
  return std::size_t(found - known.begin());
}

bool switch_of(const YamlNode& node) {
  const std::string& text = scalar(node, "on or off");
  if (text == "on" || text == "true") return true;
  if (text == "off" || text == "false") return false;
  refuse(node, "unknown value " + quoted(text) + "; known values: on, off");
}

void refuse_if_repeated(const YamlNode& map, const YamlNode& field) {
  const YamlNode* first = map.child(field.name);
  if (first == &field) return;
  refuse(field, std::string("is given twice") + (first->line > 0 ? ", first in line " + std::to_string(first->line) : "") +
                    "; remove one");
}

const std::vector<YamlNode>& list_of(const YamlNode& node, const char* example) {
  if (node.kind != YamlNode::Kind::list) refuse(node, "is " + in_words(node) + ", but a list is expected; write it as " + example);
  if (node.children.empty()) refuse(node, std::string("is an empty list; write it as ") + example);
  return node.children;
}

std::string joined(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ", ") + text;
  return out;
}

}  // namespace shardsim
