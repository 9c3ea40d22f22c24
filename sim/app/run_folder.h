// RunFolder: a results folder read back, for the report and the comparison: what people look at comes from the files alone.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace shardsim {

/// The rows of a CSV file that a run wrote, by the names of its columns; further columns may stand between them.
class CsvRow {
 public:
  const std::string& text(std::size_t column) const { return cells_[at_[column]]; }
  double number(std::size_t column) const;       ///< a finite one; throws ScenarioError for anything else
  double loss(std::size_t column) const;         ///< any number, NaN for an empty cell; throws ScenarioError for anything else
  std::int64_t whole(std::size_t column) const;  ///< throws ScenarioError for anything but a whole number
  [[noreturn]] void refuse(const std::string& what) const;  ///< throws ScenarioError with the file, the line and the remedy

 private:
  friend void for_each_row(const std::filesystem::path&, const std::vector<std::string>&,
                           const std::function<void(const CsvRow&)>&);
  std::vector<std::string> cells_;
  std::vector<std::size_t> at_;
  std::string place_;
};

/// Calls `take` for every row; `columns[i]` is column i of the CsvRow. Throws ScenarioError: no such file, no such column, a row
/// that is too short.
void for_each_row(const std::filesystem::path& file, const std::vector<std::string>& columns,
                  const std::function<void(const CsvRow&)>& take);

/// summary.json of a results folder. Throws ScenarioError for a folder that no run wrote, or that a later version of this program
/// did.
nlohmann::ordered_json read_summary(const std::filesystem::path& folder);

/// A file's text; empty if there is none. Throws ScenarioError: there is something that cannot be read, a folder for example.
std::string text_of_file(const std::filesystem::path& file);

/// As text for people and programs; what is no UTF-8 (a damaged file's words, a folder's name) is replaced.
std::string json_lines(const nlohmann::ordered_json&);

}  // namespace shardsim
