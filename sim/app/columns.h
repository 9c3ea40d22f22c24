// Columns: text that is filled up with spaces, for tables in a terminal.
#pragma once
#include <string>

namespace shardsim {

inline std::string left(const std::string& text, std::size_t columns) {
  return text.size() < columns ? text + std::string(columns - text.size(), ' ') : text;
}
inline std::string right(const std::string& text, std::size_t columns) {
  return text.size() < columns ? std::string(columns - text.size(), ' ') + text : text;
}

/// The name of a row, and a cell of it: a space stands between them however long they are.
inline std::string row_name(const std::string& text, std::size_t columns) { return left(text, columns - 1) + " "; }
inline std::string cell(const std::string& text, std::size_t columns) { return " " + right(text, columns - 1); }

}  // namespace shardsim
