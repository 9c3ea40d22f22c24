// MeasurementTable: reading CSV strictly.
#include "app/measurement_table.h"

#include <algorithm>
#include <fstream>
#include <optional>

#include "app/calibrate.h"
#include "app/fields.h"
#include "core/error.h"

namespace shardsim {
namespace {

constexpr Measurand measurands[] = {Measurand::step, Measurand::all_reduce, Measurand::reduce_scatter, Measurand::all_gather};

struct Head {
  std::vector<std::string> names;
  std::size_t measured = 0;
  Measurand measurand = Measurand::step;
};

Head head_of(const std::vector<std::string>& names, const std::string& place) {
  Head head{names, names.size(), Measurand::step};
  std::vector<std::string> known;
  for (const Measurand each : measurands) known.push_back(column_of(each));
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) throw ScenarioError(place + ": column " + std::to_string(i + 1) + " has no name");
    if (std::count(names.begin(), names.end(), names[i]) > 1)
      throw ScenarioError(place + ": the column '" + names[i] + "' stands there twice; remove one");
    if (!names[i].starts_with("measured.")) continue;
    const auto found = std::find(known.begin(), known.end(), names[i]);
    if (found == known.end())
      throw ScenarioError(place + ": there is no column '" + names[i] + "'; what can be measured: " + joined(known));
    if (head.measured != names.size())
      throw ScenarioError(place + ": has both '" + names[head.measured] + "' and '" + names[i] + "'; a table has one measurand");
    head.measured = i, head.measurand = measurands[found - known.begin()];
  }
  if (head.measured == names.size())
    throw ScenarioError(place + ": has no column for what was measured; add one of " + joined(known));
  return head;
}

MeasuredRow row_of(const Head& head, const std::vector<std::string>& cells, const std::string& place) {
  if (cells.size() != head.names.size())
    throw ScenarioError(place + ": has " + std::to_string(cells.size()) + " cells, but the head names " +
                        std::to_string(head.names.size()) + " columns");
  MeasuredRow row;
  row.place = place;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string &name = head.names[i], &cell = cells[i];
    const auto refuse = [&](const std::string& what) {
      throw ScenarioError(std::string(place).append(": ").append(name).append(": '").append(cell).append("' ").append(what));
    };
    if (i == head.measured) {
      const std::optional<double> seconds = number_in(cell);
      if (!seconds || !(*seconds > 0)) refuse("is not a positive number of seconds");
      row.seconds = *seconds;
    } else if (name == "group") {
      row.group = cell;
    } else if (name == "source") {
      row.source = cell;
    } else if (name == "calibrates") {
      row.calibrates = cell;
      if (cell != "yes" && !cell.empty() && !find_constant(cell)) refuse("is neither yes nor one of " + joined(constant_names()));
    } else if (!cell.empty()) {
      row.overrides.push_back(std::string(name).append("=").append(cell));
    }
  }
  return row;
}

}  // namespace

const char* column_of(Measurand measurand) {
  constexpr const char* names[] = {"measured.step_seconds", "measured.all_reduce_seconds", "measured.reduce_scatter_seconds",
                                   "measured.all_gather_seconds"};
  return names[int(measurand)];
}

const MeasuredRow& MeasurementTable::row(int number) const {
  if (number < 1 || number > int(rows.size()))
    throw ScenarioError(file.string() + ": has no row " + std::to_string(number) + "; its rows are 1 to " +
                        std::to_string(rows.size()));
  return rows[std::size_t(number - 1)];
}

std::vector<std::string> MeasurementTable::groups() const {
  std::vector<std::string> names;
  for (const MeasuredRow& row : rows)
    if (std::find(names.begin(), names.end(), row.group) == names.end()) names.push_back(row.group);
  return names;
}

std::vector<std::string> csv_cells(const std::string& line, const std::string& place) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') cells.back() += line[++i];
    else if (c == '"') quoted = !quoted;
    else if (c == ',' && !quoted) cells.emplace_back();
    else cells.back() += c;
  }
  if (quoted) throw ScenarioError(place + ": a quote is not closed; a cell ends on its line");
  return cells;
}

MeasurementTable read_measurements(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) throw ScenarioError(file.string() + ": there is no such file; check the path");
  if (!std::filesystem::is_regular_file(file, error))
    throw ScenarioError(file.string() + ": is " + (std::filesystem::is_directory(file, error) ? "a folder" : "a device or a pipe") +
                        "; name a table of measurements, a .csv file");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw ScenarioError(file.string() + ": cannot be read");
  MeasurementTable table;
  table.file = file, table.base = std::filesystem::path(file).replace_extension(".yaml");
  std::optional<Head> head;
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number) {
    if (number == 1 && line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);  // spreadsheets say so that it is UTF-8
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty() || line.front() == '#') continue;
    const std::string place = file.string() + ":" + std::to_string(number);
    const std::vector<std::string> cells = csv_cells(line, place);
    if (!head) {
      head = head_of(cells, place);
      table.measurand = head->measurand;
      continue;
    }
    table.rows.push_back(row_of(*head, cells, place));
    table.rows.back().number = int(table.rows.size());
  }
  if (table.rows.empty()) throw ScenarioError(file.string() + ": holds no rows");
  return table;
}

}  // namespace shardsim
