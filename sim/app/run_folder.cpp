// RunFolder: summary.json through nlohmann, CSV line by line.
#include "app/run_folder.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "app/measurement_table.h"
#include "app/summary_check.h"
#include "app/yaml_reader.h"
#include "core/error.h"
#include "formats/summary.h"

namespace shardsim {

namespace fs = std::filesystem;

double CsvRow::number(std::size_t column) const {
  const double value = text(column).empty() ? NAN : loss(column);
  if (!std::isfinite(value)) refuse(quoted(text(column)) + " is no finite number");
  return value;
}

double CsvRow::loss(std::size_t column) const {
  const std::string& cell = text(column);
  double value = NAN;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (!cell.empty() && (error != std::errc() || end != cell.data() + cell.size())) refuse(quoted(cell) + " is no number");
  return value;
}

std::int64_t CsvRow::whole(std::size_t column) const {
  const std::string& cell = text(column);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size()) refuse(quoted(cell) + " is no whole number");
  return value;
}

void CsvRow::refuse(const std::string& what) const {
  throw ScenarioError(place_ + ": " + what + "; run the scenario again to replace the file");
}

void for_each_row(const fs::path& file, const std::vector<std::string>& columns, const std::function<void(const CsvRow&)>& take) {
  std::error_code error;
  std::ifstream stream;
  if (fs::is_regular_file(file, error)) stream.open(file, std::ios::binary);  // a pipe that nobody fills would never end
  std::string line;
  if (!stream.is_open() || !std::getline(stream, line))
    throw ScenarioError(file.string() + ": cannot be read; is the folder a run's results?");
  CsvRow row;
  const std::vector<std::string> head = csv_cells(line, file.string() + ":1");
  for (const std::string& column : columns) {
    const auto found = std::find(head.begin(), head.end(), column);
    if (found == head.end())
      throw ScenarioError(file.string() + ":1: has no column '" + column + "'; run the scenario again to replace the file");
    row.at_.push_back(std::size_t(found - head.begin()));
  }
  for (int number = 2; std::getline(stream, line); ++number) {
    row.place_ = file.string() + ":" + std::to_string(number);
    row.cells_ = csv_cells(line, row.place_);
    if (row.cells_.size() != head.size())
      throw ScenarioError(row.place_ + ": has " + std::to_string(row.cells_.size()) + " cells, but the head names " +
                          std::to_string(head.size()) + " columns; run the scenario again to replace the file");
    take(row);
  }
}

nlohmann::ordered_json read_summary(const fs::path& folder) {
  const fs::path file = folder / "summary.json";
  const std::string text = text_of_file(file);
  if (std::error_code error; !fs::exists(file, error))
    throw ScenarioError(folder.string() + ": is no folder that 'shardsim run' wrote: it has no summary.json");
  if (const std::string fault = formats::fault_of_summary(text); !fault.empty())
    throw ScenarioError(file.string() + ": " + fault + "; run the scenario again, into another folder");
  const auto summary = nlohmann::ordered_json::parse(text);
  if (summary["schema_version"] != formats::summary_version)
    throw ScenarioError(folder.string() + ": was written by another version of shardsim; run the scenario again");
  check_summary(summary, file.string());
  return summary;
}

std::string text_of_file(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return {};
  std::ifstream stream;
  if (fs::is_regular_file(file, error)) stream.open(file, std::ios::binary);  // a pipe that nobody fills would never end
  if (!stream.is_open()) throw ScenarioError(file.string() + ": cannot be read; is it a file, and yours to read?");
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string json_lines(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace shardsim
