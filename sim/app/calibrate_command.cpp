// The subcommand `shardsim calibrate`: options, and the file that `prices: {from: ...}` reads.
#include "app/calibrate_command.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>

#include "app/calibrate.h"
#include "app/calibrate_run.h"
#include "app/whole_file.h"
#include "core/error.h"

namespace shardsim {
namespace {

struct CalibrateOptions {
  std::string table, from, scheme, scenario, output;
  bool collectives = false;
  std::vector<int> rows;
  std::vector<std::string> fit = {"gemm_efficiency"}, overrides;
};

/// The rows that were named, or those that the table marks.
std::vector<int> rows_of(const CalibrateOptions& options, const MeasurementTable& table, const std::vector<Constant>& fit) {
  return options.rows.empty() ? marked_rows(table, fit) : options.rows;
}

std::string comment(const MeasurementTable& table, const std::vector<int>& rows, const Calibration& calibration) {
  std::string text =
      "# Written by `shardsim calibrate` from " + table.file.filename().string() + "; predicted / measured - 1 there:";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    char part[64];
    const double percent = 100 * calibration.errors[i] + 0.0;
    std::snprintf(part, sizeof part, std::abs(percent) < 1e6 ? "%s row %d %+.2f %%" : "%s row %d %+.3g %%", i > 0 ? "," : "",
                  rows[i], percent);
    text += part;
  }
  return text + "\n";
}

/// The values as a file of prices, or as the scenario's `collectives`.
std::string yaml(const Calibration& calibration, bool collectives) {
  std::string text;
  if (!collectives) {
    for (const Calibration::Value& value : calibration.values) text += value.key + ": " + value.text + "\n";
    return text;
  }
  std::map<std::string, std::string> by_kind;
  for (const Calibration::Value& value : calibration.values) {  // collectives.alpha.all_reduce
    const std::size_t first = value.key.find('.'), last = value.key.rfind('.');
    std::string& verbs = by_kind[value.key.substr(first + 1, last - first - 1)];
    verbs += (verbs.empty() ? "" : ", ") + value.key.substr(last + 1) + ": " + value.text;
  }
  text = "collectives:\n";
  for (const auto& [kind, verbs] : by_kind) text += "  " + kind + ": {" + verbs + "}\n";
  return text;
}

void write(const std::string& file, const std::string& text) {
  if (file.empty()) {
    if (!(std::cout << text).flush()) throw ScenarioError("standard output: cannot be written");
    return;
  }
  write_whole_file(file, calibration_file, text);
}

int calibrate_run(const CalibrateOptions& options, const Registry& registry) {
  const std::string head = "# Written by `shardsim calibrate` from the run in " + options.from + ".\n";
  if (options.collectives) {
    write(options.output, head + yaml(calibrate_collectives_from_run(options.from, options.scheme), true));
    return 0;
  }
  const RunCalibration found = calibrate_from_run(options.from, options.scenario, options.scheme, options.overrides, registry);
  for (const std::string& changed : found.changed_files) std::cerr << changed << "\n";
  write(options.output, head + operations_text(found) + yaml(found.prices, false));
  return 0;
}

int calibrate_from(const CalibrateOptions& options, const Registry& registry) {
  MeasurementTable table = read_measurements(options.table);
  if (!options.scenario.empty()) table.base = options.scenario;
  std::vector<Constant> fit;
  for (const std::string& name : options.fit) fit.push_back(constant_of(name));
  std::string text;
  if (!options.collectives) {
    const std::vector<int> rows = rows_of(options, table, fit);
    const Calibration found = calibrate(table, rows, fit, options.overrides, registry);
    text = comment(table, rows, found) + yaml(found, false);
  } else {
    // A line per machine: each group of a table is one, unless rows were named.
    const std::vector<std::string> groups = options.rows.empty() ? table.groups() : std::vector<std::string>{""};
    for (const std::string& group : groups) {
      std::vector<int> rows = options.rows;
      for (const int number : marked_rows(table, {}))
        if (options.rows.empty() && table.row(number).group == group) rows.push_back(number);
      const Calibration found = calibrate_collective(table, rows, options.overrides, registry);
      text += (group.empty() ? "" : "# " + group + "\n") + comment(table, rows, found) + yaml(found, true);
    }
  }
  write(options.output, text);
  return 0;
}

}  // namespace

std::function<int(const Registry&)> add_calibrate_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("calibrate", "Solve for the constants with which the simulator reproduces measured rows");
  const auto options = std::make_shared<CalibrateOptions>();
  CLI::Option* table = command->add_option("TABLE", options->table, "CSV file of measurements");
  CLI::Option* from =
      command->add_option("--from", options->from, "Results folder of a measured run, operation by operation, in place of a table")
          ->type_name("DIR")
          ->excludes(table);
  command->add_option("--scheme", options->scheme, "Of a run: which scheme (default: its first)")->needs(from);
  command
      ->add_option("--row", options->rows, "A row to reproduce, from 1; may be repeated (default: the rows that the table marks)")
      ->excludes(from)
      ->allow_extra_args(false);
  command
      ->add_option("--fit", options->fit,
                   "What to solve for: gemm_efficiency (default), attention_flops, launch_seconds; with commas")
      ->delimiter(',')
      ->excludes(from);
  command->add_flag("--collectives", options->collectives, "Solve for a collective's latency and bus bandwidth instead");
  command->add_option("--scenario", options->scenario, "Base scenario (default: beside the table, NAME.yaml)")->type_name("FILE");
  command->add_option("--set", options->overrides, "Override a key of the scenario; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_option("-o,--output", options->output, "File to write, for `prices: {from: FILE}` (default: standard output)")
      ->type_name("FILE");
  return [options](const Registry& registry) {
    if (!options->output.empty()) check_replaceable(options->output, calibration_file);
    if (!options->from.empty()) return calibrate_run(*options, registry);
    if (std::filesystem::is_directory(options->table))
      throw ScenarioError("calibrate: " + options->table + ": is a folder; for a measured run write --from " + options->table);
    if (options->table.empty()) throw ScenarioError("calibrate: name a table of measurements, or a measured run with --from");
    return calibrate_from(*options, registry);
  };
}

}  // namespace shardsim
