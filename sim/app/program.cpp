// The program `shardsim`: its commands, and what their errors become.
#include "app/program.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <exception>
#include <cstdio>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/agreement.h"
#include "app/calibrate_command.h"
#include "app/compare_command.h"
#include "app/estimators.h"
#include "app/expectations.h"
#include "app/explain.h"
#include "app/explain_pair.h"
#include "app/explain_run.h"
#include "app/fields.h"
#include "app/figures_command.h"
#include "app/metrics.h"
#include "app/node_options.h"
#include "app/on_gpus.h"
#include "app/platform_command.h"
#include "app/report_command.h"
#include "app/plugins.h"
#include "app/results_folder.h"
#include "app/run.h"
#include "app/run_folder.h"
#include "app/scenario.h"
#include "app/sweep_command.h"
#include "app/table.h"
#include "app/usage.h"
#include "app/validate_command.h"
#include "app/yaml_reader.h"
#include "backends/cuda/errors.h"

#ifndef SHARDSIM_VERSION
#define SHARDSIM_VERSION "0.1.0"
#endif

namespace shardsim {
namespace {

enum ExitCode { fine = 0, missed = 1, wrong_input = 2, illegal_step = 3, our_error = 4, gpu_failed = 5, was_interrupted = 130 };

struct RunOptions {
  std::string scenario, folder, backend, against;
  std::optional<std::string> ranks;
  std::vector<std::string> overrides, simgrid;
  bool quiet = false, json = false, trace_per_rank = false, gzip = false;
  NodeOptions nodes;
};

/// A bar on stderr that is rewritten in place; nothing if stderr is not a terminal.
class ProgressLine {
 public:
  explicit ProgressLine(bool quiet) : shown_(!quiet && ::isatty(STDERR_FILENO)) {}
  ~ProgressLine() { clear(); }
  /// `which` of `schemes`, from 1.
  Progress for_scheme(const std::string& scheme, std::size_t which, std::size_t schemes) {
    if (!shown_) return {};
    using Clock = std::chrono::steady_clock;
    dirty_ = true;  // on simgrid the line is written by another process
    const std::string name = scheme + (schemes > 1 ? " (" + std::to_string(which) + " of " + std::to_string(schemes) + ")" : "");
    return [name, start = Clock::now(), last = Clock::time_point()](int step, int steps, double seconds) mutable {
      const Clock::time_point now = Clock::now();
      if (step < steps && now - last < std::chrono::milliseconds(50)) return;
      last = now;
      const double elapsed = std::chrono::duration<double>(now - start).count(), left = elapsed / step * (steps - step);
      const std::string done(std::size_t(20.0 * step / steps), '#');
      std::fprintf(stderr, "\r\033[K%s [%-20s] step %d of %d, %s simulated, %.0f s left", name.c_str(), done.c_str(), step, steps,
                   time_text(seconds).c_str(), left);
    };
  }
  /// While the results of so many schemes are written.
  WriteProgress for_writing(const std::filesystem::path& place, std::size_t schemes) {
    if (!shown_) return {};
    using Clock = std::chrono::steady_clock;
    dirty_ = true;
    return [place = place.string(), schemes, shown = std::size_t(0), last = Clock::time_point()](
               const std::string& scheme, std::size_t which, double bytes) mutable {
      const Clock::time_point now = Clock::now();
      if (which == shown && now - last < std::chrono::milliseconds(50)) return;
      shown = which, last = now;
      const std::string done(20 * (which - 1) / schemes, '#');
      std::fprintf(stderr, "\r\033[Kwriting %s: %s [%-20s] scheme %zu of %zu, %s of a file", place.c_str(), scheme.c_str(),
                   done.c_str(), which, schemes, bytes_text(bytes).c_str());
    };
  }
  void clear() {
    if (dirty_) std::fputs("\r\033[K", stderr);
    dirty_ = false;
  }

 private:
  bool shown_, dirty_ = false;
};

bool wants_colour() {
  const char* no_colour = std::getenv("NO_COLOR");
  return ::isatty(STDOUT_FILENO) && (!no_colour || !*no_colour);
}

/// SimGrid's models and actors are set by the backend; its traces are the user's.
void check_simgrid_options(const std::vector<std::string>& options, const Scenario& scenario) {
  for (const std::string& option : options)
    if (!option.starts_with("tracing:") && !option.starts_with("tracing/"))
      throw ScenarioError("--cfg=" + option +
                          ": SimGrid's models are set by shardsim; what may be set is tracing and tracing/..., as in "
                          "--cfg=tracing:yes --cfg=tracing/filename:run.paje");
  if (!options.empty() && scenario.backend != "simgrid")
    throw ScenarioError("--cfg=" + options[0] + ": backend: " + scenario.backend + " has no SimGrid; use --backend simgrid");
  if (!options.empty() && scenario.schemes.size() > 1)
    throw ScenarioError("--cfg=" + options[0] + ": each of " + std::to_string(scenario.schemes.size()) +
                        " schemes would write SimGrid's one file; choose one, as in --set schemes=[" + scenario.schemes[0].label +
                        "]");
}

/// What --ranks says is an override, of which nobody has heard.
Scenario scenario_of(const RunOptions& options, const std::vector<std::string>& overrides, const Registry& registry) {
  try {
    return read_scenario(options.scenario, overrides, registry);
  } catch (const ScenarioError& error) {
    const std::string text = error.what(), ours = "--set record.ranks";
    if (!options.ranks || !text.starts_with(ours)) throw;
    throw ScenarioError("--ranks " + quoted(*options.ranks) + text.substr(text.find(": ", ours.size())));
  }
}

int run(const RunOptions& options, const Registry& registry) {
  std::vector<std::string> overrides = options.overrides;
  if (!options.backend.empty()) overrides.push_back("backend=" + options.backend);
  if (options.ranks) overrides.push_back("record.ranks=[" + *options.ranks + "]");
  if (options.trace_per_rank) overrides.push_back("record.per_rank=on");
  if (options.gzip) overrides.push_back("record.gzip=on");
  Scenario scenario = scenario_of(options, overrides, registry);
  check_simgrid_options(options.simgrid, scenario);
  scenario.simgrid_tracing = options.simgrid;
  const auto environment = [](const char* name) { return std::getenv(name); };
  const std::string node = place_among_nodes(options.nodes, environment, scenario);
  if (!node.empty() && !options.quiet) std::cerr << node << "\n";
  const bool leads = scenario.nodes.me == 0;  // the others hand in what they have
  const std::filesystem::path place =
      options.folder.empty() ? std::filesystem::path("results") / scenario.file.stem() : std::filesystem::path(options.folder);
  if (!options.against.empty() && std::filesystem::weakly_canonical(options.against) == std::filesystem::weakly_canonical(place))
    throw ScenarioError("--against " + options.against + ": is the folder that this run writes; write it to another one with -o");
  std::optional<ResultsFolder> folder;
  if (leads) folder.emplace(place);
  if (!options.against.empty()) read_summary(options.against);  // before hours of work

  for (const SchemeChoice& choice : scenario.schemes) check_that_numbers_fit(scenario, choice);  // before any are made
  if (scenario.backend == "cuda") check_gpus(scenario);
  const TrainingSet set(scenario);
  catch_interrupts();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow further is an error like a full disk
  std::vector<SchemeResult> results;
  std::vector<formats::Figures> figures;
  ProgressLine progress(options.quiet);
  bool stopped = false;
  std::exception_ptr failure;
  for (const SchemeChoice& choice : scenario.schemes) {
    SchemeResult result;
    try {
      result = run_scheme(scenario, set, choice, progress.for_scheme(choice.label, results.size() + 1, scenario.schemes.size()));
    } catch (const cuda::Interrupted&) {  // nodes do not end the step at hand
      stopped = true;
      break;
    } catch (...) {
      stopped = interrupted() && scenario.nodes.count > 1;  // and what else went wrong came of that
      if (!stopped && results.empty()) throw;
      if (!stopped) failure = std::current_exception();  // what was finished is not thrown away
      break;
    }
    progress.clear();
    stopped = result.interrupted || interrupted();
    if (result.steps > 0 && leads) {
      figures.push_back(measure(scenario, result));
      results.push_back(std::move(result));
    }
    if (stopped) break;
  }
  progress.clear();
  if (stopped) leave_nodes(scenario, std::make_exception_ptr(cuda::Interrupted()));
  if (!leads) {
    if (stopped) std::cerr << "interrupted; node 0 keeps what was finished\n";
    else if (!options.quiet) std::cout << "Results: node 0 writes them, on " << scenario.nodes.host << std::endl;
    return stopped ? was_interrupted : fine;
  }
  std::vector<std::string> notes = run_notes(scenario, results, figures);
  if (failure) notes.push_back(scenario.schemes[results.size()].label + " failed: neither it nor what comes after it is here.");
  if (options.json) {
    formats::write_summary(std::cout, facts_of(scenario, notes), figures);
  } else if (!options.quiet) {
    std::cout << table_text(scenario, results, figures, notes, wants_colour());
  }
  std::cout.flush();
  if (!results.empty())  // after the table: a full disk does not take that too
    folder->write(scenario, results, figures, notes, progress.for_writing(place, results.size()));
  progress.clear();
  if (!results.empty() && !options.json && !options.quiet) std::cout << "Results: " << place.string() << std::endl;
  std::string against;
  if (!options.against.empty() && !results.empty()) {
    const nlohmann::ordered_json compared = agreement(place, options.against);
    std::cout << (options.quiet ? verdict_text(compared) : "\n" + agreement_text(compared));
    against = disagreements(compared, {});
  }
  if (!std::cout) throw ScenarioError("standard output: cannot be written");
  if (failure) std::rethrow_exception(failure);
  if (stopped) {
    std::cerr << "interrupted; " << (results.empty() ? "nothing was finished" : "what was finished is in " + place.string())
              << "\n";
    return was_interrupted;
  }
  const std::vector<std::string> misses = missed_expectations(scenario, figures);
  for (const std::string& miss : misses) std::cerr << miss << "\n";
  std::cerr << against;
  return misses.empty() && against.empty() ? fine : missed;
}

int explain(const std::vector<std::string>& words, ExplainRunOptions of_run, bool estimators, const Registry& registry) {
  if (estimators) {
    if (words.size() > 1) throw ScenarioError("explain --estimators: takes one scenario, or none");
    std::cout << explain_estimators(words.empty() ? "" : words[0], of_run.overrides, registry);
    return fine;
  }
  if (words.size() == 1 && !registry.find(words[0]) && std::filesystem::exists(words[0])) {
    of_run.scenario = words[0];
    std::cout << explain_run(of_run, registry);
    return fine;
  }
  if (!of_run.scheme.empty() || !of_run.only.empty() || !of_run.overrides.empty() || of_run.rank != 0)
    throw ScenarioError("explain: --scheme, --rank, --only and --set are of a scenario; name its file");
  const std::vector<SchemeChoice> schemes = schemes_in(words, registry);
  if (schemes.empty() || schemes.size() > 2) throw ScenarioError("explain: takes one or two schemes, or a scenario");
  std::cout << (schemes.size() == 1 ? explain_scheme(schemes[0], registry) : explain_pair(schemes[0], schemes[1], registry));
  return fine;
}

int list(const std::string& what, const Registry& registry) {
  std::cout << (what == "schemes"     ? list_schemes(registry)
                : what == "platforms" ? list_platforms()
                : what == "gpus"      ? list_gpus()
                                      : list_models());
  return fine;
}

}  // namespace

int run_program(int argc, const char* const* argv, const Registry& built_in) {
  CLI::App app{"shardsim: a discrete-event cluster simulator for data-parallel training", "shardsim"};
  app.set_version_flag("--version", "shardsim " SHARDSIM_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 fine, 1 an expectation was missed, 2 the input is wrong, 3 a scheme's program is illegal, "
      "4 an error of shardsim's own, 5 a GPU or another node failed, 130 interrupted.");

  RunOptions options;
  CLI::App* run_command = app.add_subcommand("run", "Run the schemes of a scenario; print the table and write the results");
  run_command->add_option("SCENARIO", options.scenario, "YAML file")->required();
  run_command->add_option("-o,--output", options.folder, "Folder for the results (default: results/<name of the scenario file>)")
      ->type_name("DIR");
  run_command->add_option("--set", options.overrides, "Override a key of the scenario, as in --set batch.micro=4; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  run_command->add_option("--backend", options.backend, "What carries out the run")
      ->check(CLI::IsMember({"simgrid", "threads", "cuda"}));
  run_command->add_option("--ranks", options.ranks,
                          "Which ranks are in traces and CSVs, as in --ranks 0,1,8-15 (default: the first 8)");
  run_command->add_flag("--trace-per-rank", options.trace_per_rank, "Write traces/rank-N.pt.trace.json instead of one trace.json");
  run_command->add_flag("--gzip", options.gzip, "Compress the traces");
  run_command
      ->add_option("--cfg", options.simgrid, "SimGrid's own tracing, as in --cfg=tracing:yes --cfg=tracing/filename:run.paje")
      ->type_name("ITEM:VALUE")
      ->allow_extra_args(false);
  run_command->add_option("--nnodes", options.nodes.nnodes, "cuda: machines, one process on each, with as many ranks (GPUs) each");
  run_command->add_option("--node-rank", options.nodes.node_rank, "cuda: which of them this is, from 0 on; 0 writes the results");
  run_command
      ->add_option("--rdzv-endpoint", options.nodes.rdzv_endpoint, "cuda: where they meet: the first one's name and a free port")
      ->type_name("HOST:PORT");
  run_command
      ->add_option("--launcher", options.nodes.launcher, "cuda: what is not said of these three is in this one's environment")
      ->check(CLI::IsMember({"slurm", "openmpi"}));
  run_command->add_option("--against", options.against, "Also compare with these results of a measured run")->type_name("DIR");
  run_command->add_flag("--quiet", options.quiet, "Print neither the table nor progress");
  run_command->add_flag("--json", options.json, "Print summary.json instead of the table")->excludes("--against");

  std::string listed;
  std::vector<std::string> plugins;
  CLI::App* explain_command = app.add_subcommand(
      "explain", "Show what a scheme keeps, moves and does; of two, the difference; of a scenario, the price of every operation");
  explain_command->allow_extras();  // schemes with their options, in order; or a scenario
  explain_command->footer("SCHEME [--option VALUE]... [SCHEME [--option VALUE]...], or [--estimators] SCENARIO");
  ExplainRunOptions run_explained;
  explain_command->add_option("--scheme", run_explained.scheme, "Of a scenario: which scheme (default: its first)");
  explain_command->add_option("--rank", run_explained.rank, "Of a scenario: whose prices (default: rank 0)");
  explain_command->add_option("--only", run_explained.only, "Of a scenario: one op, collective or verb, as in --only matmul");
  explain_command->add_option("--top", run_explained.top, "Of a scenario: lines to show, 0 for all (default: 20)")
      ->check(CLI::Range(0, 1'000'000));
  explain_command->add_option("--set", run_explained.overrides, "Of a scenario: override a key")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  bool estimators = false;
  explain_command->add_flag("--estimators", estimators,
                            "Published formulas of a GPU's memory beside the simulated one: of a scenario, or of GPT-2 Large");
  CLI::App* list_command = app.add_subcommand("list", "List what this program knows");
  list_command->add_option("WHAT", listed)->required()->check(CLI::IsMember({"schemes", "platforms", "models", "gpus"}));

  const std::function<void()> write_platform = add_platform_command(app), write_report = add_report_command(app),
                              compare = add_compare_command(app), draw_figures = add_figures_command(app);
  const std::function<int(const Registry&)> validate = add_validate_command(app), calibrate = add_calibrate_command(app);
  const auto sweep = add_sweep_command(app);

  for (CLI::App* command : {run_command, explain_command, list_command, app.get_subcommand("validate"),
                            app.get_subcommand("calibrate"), app.get_subcommand("sweep")})
    command->add_option("--plugin", plugins, "Load a scheme from a library, as in --plugin ./libmine.so; may be repeated")
        ->type_name("FILE")
        ->allow_extra_args(false);

  check_values(app);
  if (const std::string unknown = unknown_command(app, argc, argv); !unknown.empty()) {
    std::cerr << unknown << "\n";
    return wrong_input;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error), fine;  // --help, --version
    std::cerr << usage_error(app, error) << "\n";
    return wrong_input;
  }
  try {
    Registry registry = built_in;
    load_plugins(plugins, registry);
    if (run_command->parsed()) return run(options, registry);
    if (app.got_subcommand("platform")) return write_platform(), fine;
    if (app.got_subcommand("report")) return write_report(), fine;
    if (app.got_subcommand("compare")) return compare(), fine;
    if (app.got_subcommand("figures")) return draw_figures(), fine;
    if (app.got_subcommand("validate")) return validate(registry);
    if (app.got_subcommand("calibrate")) return calibrate(registry);
    if (app.got_subcommand("sweep")) return sweep(registry, plugins);
    const int code = explain_command->parsed() ? explain(explain_command->remaining(), run_explained, estimators, registry)
                                               : list(listed, registry);
    if (!std::cout.flush()) throw ScenarioError("standard output: cannot be written");
    return code;
  } catch (const ScenarioError& error) {
    std::cerr << error.what() << "\n";
    return wrong_input;
  } catch (const IllegalStep& error) {
    std::cerr << error.what() << "\n";
    return illegal_step;
  } catch (const cuda::GpuError& error) {
    std::cerr << error.what() << "\n";
    return gpu_failed;
  } catch (const std::bad_alloc&) {
    std::cerr << options.scenario
              << ": the run was killed, or does not fit into this machine's memory; numerics: off or a twin need less, and so do "
                 "fewer ranks, ranks: folded and a smaller launch_queue\n";
    return wrong_input;
  } catch (const std::exception& error) {
    std::cerr << "shardsim: internal error: " << error.what() << "\n";
    return our_error;
  }
}

}  // namespace shardsim
