// The subcommand `shardsim figures`: checks the folders, then becomes Python.
#include "app/figures_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/run_folder.h"
#include "app/scenario_parts.h"
#include "core/error.h"
#include "formats/summary.h"

namespace shardsim {
namespace {

namespace fs = std::filesystem;

/// Installed, the scripts lie beside the platforms; in the sources, with the tools.
fs::path script() {
  const fs::path installed = platforms_folder().parent_path() / "figures/make.py";
  return fs::exists(installed) ? installed : platforms_folder().parent_path() / "tools/figures/make.py";
}

/// Whether a file is the summary of a run.
bool is_summary(const fs::path& file) {
  std::error_code error;
  return fs::is_regular_file(file, error) && formats::fault_of_summary(text_of_file(file)).empty();
}

/// A run replaces its results as a whole, and refuses to where other files lie among them.
void check_output(const fs::path& output) {
  for (fs::path folder = fs::weakly_canonical(fs::absolute(output)); folder != folder.parent_path(); folder = folder.parent_path())
    if (is_summary(folder / "summary.json"))
      throw ScenarioError("figures: -o " + output.string() + ": " + folder.string() +
                          " is a run's results, which could not be replaced then; name a folder beside it");
}

void check_run(const fs::path& run) {
  std::error_code error;
  if (is_summary(run))
    throw ScenarioError("figures: " + run.string() + ": is the summary of a run; name its folder, " +
                        (run.has_parent_path() ? run.parent_path().string() : "."));
  if (!fs::is_regular_file(run, error) && !fs::is_regular_file(run / "sweep.csv", error)) read_summary(run);
}

[[noreturn]] void become(const std::string& program, std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(program.c_str(), arguments.data());
  throw ScenarioError("figures: " + program + " cannot be run: " + std::strerror(errno) +
                      "; install python3 and python3-matplotlib");
}

}  // namespace

std::function<void()> add_figures_command(CLI::App& app) {
  struct Options {
    std::vector<std::string> runs;
    std::string output, formats = "svg", only;
  };
  CLI::App* command =
      app.add_subcommand("figures", "Draw course figures from the files that runs wrote; each script can be edited");
  const auto options = std::make_shared<Options>();
  command
      ->add_option("RUN", options->runs,
                   "Folders that runs wrote (several make scalings and sweeps) or that a sweep did, or a file that validate --json "
                   "printed")
      ->required();
  command->add_option("-o,--output", options->output, "Folder for the figures (default: figures/ and the first RUN's name)")
      ->type_name("DIR");
  command->add_option("--format", options->formats, "svg (default), pdf, png; several with commas");
  command->add_option("--only", options->only, "Only these figures, by name, with commas");
  return [options] {
    for (const std::string& run : options->runs) check_run(run);
    if (!options->output.empty()) check_output(options->output);
    // Debian's matplotlib belongs to Debian's Python; another one may come first in the path.
    const std::string python = fs::exists("/usr/bin/python3") ? "/usr/bin/python3" : "python3";
    std::vector<std::string> words = {python, "-B", script().string()};
    words.insert(words.end(), options->runs.begin(), options->runs.end());
    words.insert(words.end(), {"--format", options->formats});
    if (!options->output.empty()) words.insert(words.end(), {"-o", options->output});
    if (!options->only.empty()) words.insert(words.end(), {"--only", options->only});
    become(python, words);
  };
}

}  // namespace shardsim
