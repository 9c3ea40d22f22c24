// MeasurementTable: rows of public measurements, each of them a scenario: what it sets on the base scenario beside the table, as
// --set would, and what came out on the real machine.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace shardsim {

/// What was measured, and can be predicted: seconds of a step, or of one collective in it.
enum class Measurand { step, all_reduce, reduce_scatter, all_gather };
const char* column_of(Measurand);  ///< "measured.step_seconds", ...

struct MeasuredRow {
  int number = 0;                      ///< from 1, without the comments and the head
  std::string place;                   ///< "file.csv:12", for messages
  std::vector<std::string> overrides;  ///< "model.layers=24": an empty cell overrides nothing
  double seconds = 0;
  std::string group, source;
  std::string calibrates;  ///< the constant that may be fitted to it, or `yes` for any; where it is, the row is not counted
};

struct MeasurementTable {
  std::filesystem::path file, base;  ///< base: the scenario beside it, `NAME.yaml`
  Measurand measurand = Measurand::step;
  std::vector<MeasuredRow> rows;

  const MeasuredRow& row(int number) const;  ///< throws ScenarioError: no such row
  /// In order of appearance.
  std::vector<std::string> groups() const;
};

/// Reads a table. Its head names the columns: keys of a scenario (`model.layers`), one of measured.step_seconds,
/// measured.all_reduce_seconds, measured.reduce_scatter_seconds and measured.all_gather_seconds, and, if wanted, `group`, `source`
/// and `calibrates` (yes, the name of a constant, or empty). Lines that begin with # are comments. Throws ScenarioError, one line
/// that names file and line.
MeasurementTable read_measurements(const std::filesystem::path& file);

/// The cells of one line of a CSV file; throws ScenarioError at `place` for a quote that is not closed.
std::vector<std::string> csv_cells(const std::string& line, const std::string& place);

}  // namespace shardsim
