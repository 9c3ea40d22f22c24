// Options: reading a value, and giving it out as what it was declared to be.
#include "core/options.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <stdexcept>

namespace shardsim {
namespace {

constexpr std::size_t longest_suffix = 80;

bool is_in(const std::vector<std::string>& words, const std::string& text) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string short_text(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.15g", number);
  return text;
}

/// NaN for what is no finite number.
double number_in(const std::string& text) {
  double number = 0;
  const char *begin = text.data() + (text.starts_with('+') ? 1 : 0), *end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(begin, end, number);
  return error == std::errc() && rest == end && std::isfinite(number) ? number : NAN;
}

}  // namespace

std::string Option::range() const {
  if (kind == Kind::text) return words.empty() ? "a text" : "one of " + joined(words);
  std::string text = kind == Kind::boolean ? "true or false" : kind == Kind::integer ? "a whole number" : "a number";
  if (std::isfinite(low)) text += (std::isfinite(high) ? " from " : " of at least ") + short_text(low);
  if (std::isfinite(high)) text += (std::isfinite(low) ? " to " : " of at most ") + short_text(high);
  for (const std::string& word : words) text += ", or " + word;
  return text;
}

Options::Options(std::vector<Option> declared) : declared_(std::move(declared)) {
  for (const Option& option : declared_) values_.push_back(parsed(option, option.standard));
}

Options::Value Options::parsed(const Option& option, const std::string& text) {
  if (is_in(option.words, text)) return {text, NAN};
  const auto refuse = [&] { throw std::invalid_argument("has to be " + option.range()); };
  if (option.kind == Option::Kind::text) {
    if (!option.words.empty() || text.empty()) refuse();
    return {text, NAN};
  }
  if (option.kind == Option::Kind::boolean) {
    if (is_in({"true", "True", "on"}, text)) return {"true", 1};
    if (!is_in({"false", "False", "off"}, text)) refuse();
    return {"false", 0};
  }
  const double number = number_in(text);
  if (!(number >= option.low && number <= option.high)) refuse();
  // Beyond 2^53 a double no longer holds every integer.
  if (option.kind == Option::Kind::integer && (number != std::floor(number) || std::abs(number) > 0x1p53)) refuse();
  return {text, number};
}

void Options::set(const std::string& name, const std::string& value) {
  const Option* option = find(name);
  if (!option) {
    std::vector<std::string> known;
    for (const Option& each : declared_) known.push_back(each.name);
    throw std::invalid_argument("unknown option; " + (known.empty() ? "this scheme has none" : "known options: " + joined(known)));
  }
  if (given(name)) throw std::invalid_argument("is given twice; remove one");
  values_[at(name)] = parsed(*option, value);
  given_.push_back(at(name));
}

bool Options::boolean(const std::string& name) const { return value(name, Option::Kind::boolean).number != 0; }
std::int64_t Options::integer(const std::string& name) const { return std::int64_t(value(name, Option::Kind::integer).number); }
double Options::number(const std::string& name) const { return value(name, Option::Kind::number).number; }
const std::string& Options::text(const std::string& name) const { return values_[at(name)].text; }
bool Options::given(const std::string& name) const { return std::find(given_.begin(), given_.end(), at(name)) != given_.end(); }

const Option* Options::find(const std::string& name) const {
  for (const Option& option : declared_)
    if (option.name == name) return &option;
  return nullptr;
}

const Options::Value& Options::value(const std::string& name, Option::Kind kind) const {
  const Value& found = values_[at(name)];
  if (declared_[at(name)].kind != kind) throw std::logic_error("the option " + name + " is " + find(name)->range());
  if (std::isnan(found.number)) throw std::logic_error("the option " + name + " is " + found.text + ", no number");
  return found;
}

std::size_t Options::at(const std::string& name) const {
  const Option* option = find(name);
  if (!option) throw std::logic_error("the option " + name + " is not declared");
  return std::size_t(option - declared_.data());
}

std::string Options::suffix() const {
  std::string suffix;
  bool differs = false;
  int left_out = 0;
  for (const std::size_t i : given_) {
    const Option& option = declared_[i];
    differs |= !same(values_[i], parsed(option, option.standard));
    std::string part = "-" + option.name + (option.name == "stage" ? "" : "-") + values_[i].text;
    for (char& c : part)
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_' && c != '.' && c != '+') c = '_';
    if (suffix.size() + part.size() <= longest_suffix) suffix += part;
    else ++left_out;
  }
  if (left_out > 0) suffix += "-and-" + std::to_string(left_out) + "-more";
  return differs ? suffix : "";
}

bool Options::same(const Value& a, const Value& b) { return a.number == b.number || a.text == b.text; }

bool Options::operator==(const Options& other) const {
  return std::equal(values_.begin(), values_.end(), other.values_.begin(), other.values_.end(), same);
}

}  // namespace shardsim
