// The subcommand `shardsim report`.
#include "app/report_command.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>

#include "app/report.h"
#include "app/whole_file.h"
#include "core/error.h"

namespace shardsim {

std::function<void()> add_report_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("report", "Write report.html, the page to look at, for a folder that a run wrote");
  const auto folder = std::make_shared<std::string>(), file = std::make_shared<std::string>();
  command->add_option("DIR", *folder, "A run's results")->required();
  command->add_option("-o,--output", *file, "The page (default: DIR/report.html)")->type_name("FILE");
  return [folder, file] {
    const std::filesystem::path place =
        file->empty() ? std::filesystem::path(*folder) / "report.html" : std::filesystem::path(*file);
    const std::string page = report_page(*folder);
    if (page.empty()) throw ScenarioError("report: " + std::string(no_page));
    write_whole_file(place, page_file, page);
    std::cout << "Report: " << place.string() << std::endl;
  };
}

}  // namespace shardsim
