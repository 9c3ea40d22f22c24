// The subcommand `shardsim validate`: options, progress, and what is printed.
#include "app/validate_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/agreement.h"
#include "app/comparison.h"
#include "app/fields.h"
#include "app/protocols.h"
#include "app/report.h"
#include "app/run.h"
#include "app/run_folder.h"
#include "app/validation_text.h"
#include "app/whole_file.h"
#include "core/error.h"

namespace shardsim {
namespace {

enum ExitCode { fine = 0, missed = 1, was_interrupted = 130 };

struct ValidateOptions {
  std::string table, measured, scenario, rows, max_mape, max_error, calibrate_per, html;
  std::vector<std::string> fit = {"gemm_efficiency"}, overrides;
  bool all = false, json = false;
};

/// A line on stderr that is rewritten in place; nothing if stderr is not a terminal.
ValidationProgress progress_of(const std::string& name) {
  if (!::isatty(STDERR_FILENO)) return {};
  return [name](int done, int runs) {
    std::fprintf(stderr, "\r\033[K%s: %d of %d%s", name.c_str(), done, runs, done == runs ? "\r\033[K" : "");
  };
}

/// "3", "3..7".
void read_rows(const std::string& text, Protocol& protocol) {
  if (text.empty()) return;
  const std::size_t dots = text.find("..");
  const std::string first = text.substr(0, dots), last = dots == std::string::npos ? first : text.substr(dots + 2);
  const auto is_number = [](const std::string& digits) {
    return !digits.empty() && digits.size() < 9 && digits.find_first_not_of("0123456789") == std::string::npos;
  };
  if (!is_number(first) || !is_number(last) || std::stoi(first) < 1 || std::stoi(first) > std::stoi(last))
    throw ScenarioError("--rows '" + text + "': write the first and the last row, counted from 1, as in 3..7");
  protocol.first = std::stoi(first), protocol.last = std::stoi(last);
}

Protocol protocol_of(const ValidateOptions& options) {
  Protocol protocol;
  protocol.overrides = options.overrides;
  protocol.max_mape = share_in(options.max_mape);
  protocol.calibrate_per = options.calibrate_per.empty()      ? Protocol::Per::nothing
                           : options.calibrate_per == "group" ? Protocol::Per::group
                                                              : Protocol::Per::table;
  protocol.fit.clear();
  for (const std::string& name : options.fit) protocol.fit.push_back(constant_of(name));
  read_rows(options.rows, protocol);
  return protocol;
}

void print(const std::string& text) {
  if (!(std::cout << text).flush()) throw ScenarioError("standard output: cannot be written");
}

std::string miss(const std::string& name, const Validation& validation, const Protocol& protocol) {
  char text[160];
  std::snprintf(text, sizeof text, ": the mean error is %.1f %%, more than the %.1f %% allowed\n", 100 * validation.overall.mape,
                100 * *protocol.max_mape);
  return name + text;
}

int validate_one(const ValidateOptions& options, const Registry& registry) {
  MeasurementTable table = read_measurements(options.table);
  if (!options.scenario.empty()) table.base = options.scenario;
  const Protocol protocol = protocol_of(options);
  const std::string name = table.file.filename().string();
  const std::optional<Validation> validation = validate(table, protocol, registry, progress_of(name));
  if (!validation) return was_interrupted;
  print(options.json ? json_text({{name, *validation}}) : rows_text(*validation) + "\n" + summary_text(*validation));
  if (!validation->misses(protocol)) return fine;
  std::cerr << miss(name, *validation, protocol);
  return missed;
}

/// The groups of steps; of the many of collectives, the worst.
std::string groups_text(const Validation& validation) {
  const std::vector<Validation::Group>& groups = validation.groups;
  std::string text;
  if (groups.size() < 2) return text;
  if (validation.measurand == Measurand::step) {
    for (const Validation::Group& group : groups) text += summary_line("  " + group.name, group.errors) + "\n";
    return text;
  }
  const auto worst = std::max_element(groups.begin(), groups.end(), [](const Validation::Group& a, const Validation::Group& b) {
    return a.errors.mape < b.errors.mape;
  });
  return summary_line(" worst: " + worst->name, worst->errors) + "\n";
}

/// One line per protocol and group, then the targets that were missed.
int validate_all(const ValidateOptions& options, const Registry& registry) {
  std::string text = summary_head() + "\n", misses;
  std::vector<std::pair<std::string, Validation>> validations;
  std::vector<MeasurementTable> tables;  // the validations' rows are theirs
  const std::vector<ShippedTable> shipped = read_protocols(tables_folder() / "protocols.yaml");
  tables.reserve(shipped.size());
  for (const ShippedTable& each : shipped) {
    const MeasurementTable& table = tables.emplace_back(read_measurements(each.table));
    for (Protocol protocol : each.protocols) {
      protocol.overrides.insert(protocol.overrides.end(), options.overrides.begin(), options.overrides.end());
      const std::optional<Validation> validation = validate(table, protocol, registry, progress_of(protocol.name));
      if (!validation) return was_interrupted;
      text += summary_line(protocol.name, validation->overall);
      if (protocol.max_mape)
        text += "  " + std::string(validation->misses(protocol) ? "MISSES " : "within ") +
                std::to_string(std::lround(100 * *protocol.max_mape)) + "%";
      text += "\n";
      text += groups_text(*validation);
      if (validation->misses(protocol)) misses += miss(protocol.name, *validation, protocol);
      validations.emplace_back(protocol.name, *validation);
    }
  }
  print(options.json ? json_text(validations) : text);
  std::cerr << misses;
  return misses.empty() ? fine : missed;
}

/// Both runs on one page, their timelines one above the other.
void write_page(const ValidateOptions& options, const nlohmann::ordered_json& agreement) {
  const std::vector<std::filesystem::path> folders = {options.table, options.measured};
  const std::vector<nlohmann::ordered_json> data = {report_data(folders[0]), report_data(folders[1])};
  nlohmann::ordered_json page = comparison(folders, data);
  page["runs"][0]["letter"] = "predicted", page["runs"][1]["letter"] = "measured";
  page["agreement"] = agreement;
  write_comparison_page(options.html, page, data);
}

/// One run against another one of the same scenario.
int validate_run(const ValidateOptions& options) {
  if (!options.html.empty()) check_replaceable(options.html, page_file);
  std::error_code error;
  if (std::filesystem::equivalent(options.table, options.measured, error))
    throw ScenarioError(options.measured +
                        ": is the folder of the prediction, too; name two runs, as in shardsim validate SIM MEASURED");
  const nlohmann::ordered_json compared = agreement(options.table, options.measured);
  print(options.json ? json_lines(compared) : agreement_text(compared));
  if (!options.html.empty()) write_page(options, compared);
  const std::string against = disagreements(compared, share_in(options.max_error));
  std::cerr << against;
  return against.empty() ? fine : missed;
}

}  // namespace

std::function<int(const Registry&)> add_validate_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "validate", "Predict the rows of a table of measurements, or compare a run with a measured one, and say how far off that is");
  const auto options = std::make_shared<ValidateOptions>();
  CLI::Option* table =
      command->add_option("TABLE", options->table, "CSV file of measurements, or the results folder of a simulated run");
  CLI::Option* measured =
      command->add_option("MEASURED", options->measured, "The results folder of a measured run of the same scenario");
  command->add_option("--max-error", options->max_error, "Exit code 1 where the step of a run is off by more, as in 15%")
      ->type_name("SHARE")
      ->needs(measured);
  command->add_option("--html", options->html, "Also write both runs as a page, their timelines one above the other")
      ->type_name("FILE")
      ->needs(measured);
  CLI::Option* all = command->add_flag("--all", options->all, "All shipped tables, by their protocols, in one table")
                         ->excludes(table)
                         ->excludes(measured);
  command->add_option("--scenario", options->scenario, "Base scenario (default: beside the table, NAME.yaml)")
      ->type_name("FILE")
      ->excludes(all)
      ->excludes(measured);
  command->add_option("--rows", options->rows, "Only these, counted from 1")->type_name("A..B")->excludes(all)->excludes(measured);
  command->add_option("--max-mape", options->max_mape, "Exit code 1 above this mean error, as in 12%")
      ->type_name("SHARE")
      ->excludes(all)
      ->excludes(measured);
  command
      ->add_option("--calibrate-per", options->calibrate_per,
                   "Fit constants to the rows that the table marks: of it all, or of each group")
      ->check(CLI::IsMember({"table", "group"}))
      ->excludes(all)
      ->excludes(measured);
  command->add_option("--fit", options->fit, "What to fit: gemm_efficiency (default), attention_flops, launch_seconds; with commas")
      ->delimiter(',')
      ->excludes(all);
  command->add_option("--set", options->overrides, "Override a key of the scenario; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_flag("--json", options->json, "Print all figures as JSON");
  return [options](const Registry& registry) {
    if (!options->all && options->table.empty()) throw ScenarioError("validate: name a table of measurements, or say --all");
    if (!options->measured.empty()) return validate_run(*options);
    if (std::filesystem::is_directory(options->table))
      throw ScenarioError(options->table +
                          ": is a folder; a run is compared with a second one, as in shardsim validate SIM MEASURED");
    catch_interrupts();
    const int code = options->all ? validate_all(*options, registry) : validate_one(*options, registry);
    if (code == was_interrupted) std::cerr << "interrupted\n";
    return code;
  };
}

}  // namespace shardsim
