// Pickle: a writer for Python's pickle format (protocol 4), for what JSON's types can say.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>

namespace shardsim::formats {

/// Values are written one after the other: `begin_list()`, then each item followed by `append()`; `begin_dict()`, then keys and
/// values in turn, then `end_dict()`. Opcodes: Python's Lib/pickletools.py; only those that PyTorch's memory viewer reads.
class Pickle {
 public:
  explicit Pickle(std::ostream&);
  void text(const std::string&);  ///< a text that was written before becomes a reference
  void integer(std::int64_t);
  void boolean(bool);
  void pair(std::int64_t, std::int64_t);  ///< a tuple
  void begin_list();
  void append();
  void begin_dict();
  void end_dict();
  /// The value just written can be written again by its number.
  int remember();
  void recall(int number);
  /// After the last value.
  void end();

 private:
  void bytes(std::uint64_t value, int count);
  std::ostream& out_;
  std::map<std::string, int> texts_;
  int remembered_ = 0;
};

}  // namespace shardsim::formats
