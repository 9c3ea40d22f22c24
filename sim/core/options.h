// Options: what one scheme alone can be told, as `stage` of DeepSpeed. A scheme declares them; a scenario or `explain` sets them.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace shardsim {

/// One declared option, under its public name and with its public default.
struct Option {
  enum class Kind { boolean, integer, number, text };
  std::string name;
  Kind kind = Kind::text;
  std::string standard;  ///< the default, as one writes it: "true", "5e8", "auto"
  std::string about;     ///< one line, with its source
  /// Of a text: all that it may be; none: any text. Of the others: words that are taken too, as "auto" or "None".
  std::vector<std::string> words = {};
  double low = -std::numeric_limits<double>::infinity();  ///< of a number, inclusive; as high
  double high = std::numeric_limits<double>::infinity();

  /// "a whole number from 0 to 3, or auto": what a value has to be.
  std::string range() const;
};

/// The values of a scheme's options: the defaults, and what was set.
class Options {
 public:
  Options() = default;
  /// Throws std::invalid_argument for a default that the option itself would refuse.
  explicit Options(std::vector<Option> declared);

  /// Throws std::invalid_argument, in words that follow "where: name: ", for an option that is not declared or set twice, and for a
  /// value of another kind or out of range. Booleans are true or false, on or off; 5e8 is a whole number.
  void set(const std::string& name, const std::string& value);

  // Asking for what is not declared, or for another kind, is the scheme's mistake: std::logic_error. So is asking for the number
  // of a word.
  bool boolean(const std::string& name) const;
  std::int64_t integer(const std::string& name) const;
  double number(const std::string& name) const;
  /// Of any kind, as it was written; a boolean is "true" or "false".
  const std::string& text(const std::string& name) const;
  /// True if it was set, be it to its default: to refuse what contradicts. What runs depends on values only; where silence means
  /// something of its own, the option has a word for it ("None") as its default.
  bool given(const std::string& name) const;

  const std::vector<Option>& declared() const { return declared_; }
  /// Null if there is none.
  const Option* find(const std::string& name) const;
  /// "-stage3-overlap_comm-true": what was set, in that order, fit for a folder's name; what is beyond 80 characters is counted, as
  /// "-and-2-more". Empty if nothing differs from its default.
  std::string suffix() const;
  /// True if every value is the same; 5e8 is 500000000.
  bool operator==(const Options&) const;

 private:
  struct Value {
    std::string text;
    double number;  ///< NaN for a word or a text
  };
  static Value parsed(const Option&, const std::string& text);
  static bool same(const Value&, const Value&);
  const Value& value(const std::string& name, Option::Kind) const;
  std::size_t at(const std::string& name) const;

  std::vector<Option> declared_;
  std::vector<Value> values_;  ///< as declared_
  std::vector<std::size_t> given_;
};

}  // namespace shardsim
