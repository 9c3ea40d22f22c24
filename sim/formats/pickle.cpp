// Pickle: opcodes and little-endian numbers.
#include "formats/pickle.h"

#include <ostream>

namespace shardsim::formats {

Pickle::Pickle(std::ostream& out) : out_(out) { out_ << "\x80\x04"; }

void Pickle::bytes(std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) out_.put(char(value >> 8 * i & 0xff));
}

void Pickle::text(const std::string& text) {
  const auto [known, is_new] = texts_.try_emplace(text, remembered_);
  if (!is_new) return recall(known->second);
  if (text.size() < 256) out_.put('\x8c'), bytes(text.size(), 1);
  else out_.put('X'), bytes(text.size(), 4);
  out_ << text;
  remember();
}

void Pickle::integer(std::int64_t value) {
  if (value >= 0 && value < 256) out_.put('K'), bytes(std::uint64_t(value), 1);
  else if (value >= 0 && value < 65536) out_.put('M'), bytes(std::uint64_t(value), 2);
  else if (value == std::int32_t(value)) out_.put('J'), bytes(std::uint64_t(value), 4);
  else out_.put('\x8a'), bytes(8, 1), bytes(std::uint64_t(value), 8);
}

void Pickle::boolean(bool value) { out_.put(value ? '\x88' : '\x89'); }
void Pickle::pair(std::int64_t first, std::int64_t second) {
  integer(first), integer(second);
  out_.put('\x86');
}
void Pickle::begin_list() { out_.put(']'); }
void Pickle::append() { out_.put('a'); }
void Pickle::begin_dict() { out_ << "}("; }
void Pickle::end_dict() { out_.put('u'); }

int Pickle::remember() {
  out_.put('\x94');
  return remembered_++;
}

void Pickle::recall(int number) {
  if (number < 256) out_.put('h'), bytes(std::uint64_t(number), 1);
  else out_.put('j'), bytes(std::uint64_t(number), 4);
}

void Pickle::end() { out_.put('.'); }

}  // namespace shardsim::formats
