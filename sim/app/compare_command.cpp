// The subcommand `shardsim compare`.
#include "app/compare_command.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/comparison.h"
#include "app/report.h"
#include "app/run_folder.h"
#include "app/whole_file.h"
#include "core/error.h"

namespace shardsim {

std::function<void()> add_compare_command(CLI::App& app) {
  struct Options {
    std::vector<std::string> folders;
    std::string html;
    bool json = false;
  };
  CLI::App* command =
      app.add_subcommand("compare", "Put the results of runs side by side: what changed, and why each figure moved");
  const auto options = std::make_shared<Options>();
  command
      ->add_option("DIR", options->folders, "Two or more folders that runs wrote; the first is what the others are compared with")
      ->required()
      ->expected(2, 26);
  command->add_option("--html", options->html, "Also write the comparison as a page")->type_name("FILE");
  command->add_flag("--json", options->json, "Print the comparison as JSON");
  return [options] {
    if (!options->html.empty()) check_replaceable(options->html, page_file);
    std::vector<nlohmann::ordered_json> data;
    for (const std::string& folder : options->folders) data.push_back(report_data(folder));
    const nlohmann::ordered_json compared = comparison({options->folders.begin(), options->folders.end()}, data);
    std::cout << (options->json ? json_lines(compared) : comparison_text(compared));
    if (!options->html.empty()) write_comparison_page(options->html, compared, data);
    if (!std::cout.flush()) throw ScenarioError("standard output: cannot be written");
  };
}

}  // namespace shardsim
