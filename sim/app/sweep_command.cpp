// The subcommand `shardsim sweep`: options, the folder of a sweep, progress, and what is printed.
#include "app/sweep_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <thread>

#include "app/run.h"
#include "app/sweep.h"
#include "app/sweep_rows.h"
#include "core/error.h"

namespace shardsim {
namespace {

namespace fs = std::filesystem;

enum ExitCode { fine = 0, our_error = 4, was_interrupted = 130 };

struct SweepOptions {
  SweepRequest request;
  std::string folder;
  Ranking ranking;
  int jobs = 0;  // 0: as many as there are cores; one beside others
  bool quiet = false;
};

/// Makes the folder of a sweep, or finds it. Throws ScenarioError: something else lies there.
fs::path journal_in(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw ScenarioError(folder.string() + ": cannot be made: " + error.message() + "; name another folder with -o");
  const fs::path journal = folder / "journal";
  if (!fs::is_empty(folder, error) && !fs::exists(journal))  // in this order: another rank may make it meanwhile
    throw ScenarioError(folder.string() + ": holds something that is no sweep; name another folder with -o");
  return journal;
}

void write_csv(const fs::path& file, const std::string& text) {
  const fs::path beside = file.string() + "." + std::to_string(getpid());
  std::ofstream stream(beside, std::ios::binary);
  stream << text;
  stream.close();
  std::error_code error;
  if (stream) fs::rename(beside, file, error);
  if (stream && !error) return;
  fs::remove(beside, error);
  throw ScenarioError(file.string() + ": cannot be written; is the disk full?");
}

/// What the journal knows of the plan's runs; an empty text where it knows nothing.
std::vector<std::string> outcomes_of(const SweepPlan& plan, SweepJournal& journal) {
  journal.read();
  std::vector<std::string> outcomes;
  for (const SweepRun& run : plan.runs) {
    const std::string* found = run.refusal.empty() ? journal.find(run.key) : nullptr;
    outcomes.push_back(found ? *found : run.refusal.empty() ? "" : outcome_without_figures("refused", run.refusal));
  }
  return outcomes;
}

int count_of(const std::vector<std::string>& outcomes, const std::string& status) {
  return int(std::count_if(outcomes.begin(), outcomes.end(),
                           [&](const std::string& outcome) { return outcome.substr(0, outcome.find(',')) == status; }));
}

/// A line on stderr that is rewritten in place: how many runs are done, and how long the others may take.
SweepProgress progress_line(const SweepPlan& plan, SweepJournal& journal) {
  using Clock = std::chrono::steady_clock;
  const auto done_now = [&plan, &journal] {
    const auto outcomes = outcomes_of(plan, journal);
    return int(outcomes.size()) - count_of(outcomes, "");
  };
  return [=, runs = int(plan.runs.size()), before = done_now(), begin = Clock::now(), shown = -1]() mutable {
    const int done = done_now();
    if (done == shown) return;
    shown = done;
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    std::fprintf(stderr, "\r\033[K%d of %d runs", done, runs);
    if (done > before && done < runs)
      std::fprintf(stderr, ", %.3g a second, %.0f s left", (done - before) / seconds, seconds * (runs - done) / (done - before));
  };
}

/// Another rank than the first works, and leaves it to the first to speak.
int sweep(const SweepOptions& options, const Registry& registry, const SweepSeat& seat) {
  rankable_figure(options.ranking.best);
  const SweepPlan plan = make_plan(options.request, registry);
  const fs::path folder =
      options.folder.empty() ? fs::path("results") / (plan.file.stem().string() + "-sweep") : fs::path(options.folder);
  const fs::path file = journal_in(folder);
  SweepJournal journal(file);
  catch_interrupts();
  const int cores = seat.size > 1 ? 1 : std::max(1, int(std::thread::hardware_concurrency()));
  const bool speaks = seat.rank == 0, shows_progress = speaks && !options.quiet && ::isatty(STDERR_FILENO);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow further is an error like a full disk
  const SweepEnd end = carry_out(plan, file, options.jobs > 0 ? options.jobs : cores, registry,
                                 shows_progress ? progress_line(plan, journal) : SweepProgress());
  if (shows_progress) std::fputs("\r\033[K", stderr);
  const std::vector<std::string> outcomes = outcomes_of(plan, journal);
  const int missing = count_of(outcomes, ""), failed = count_of(outcomes, "failed");
  if (missing > 0) {
    const std::string rest = "; " + std::to_string(int(outcomes.size()) - missing) + " of " + std::to_string(outcomes.size()) +
                             " runs are done, and the same command does the rest";
    if (!interrupted() && !end.refusal.empty()) throw ScenarioError(end.refusal + rest);
    std::cerr << (speaks ? "" : "rank " + std::to_string(seat.rank) + ": ") + (interrupted() ? "interrupted" : end.others) + rest +
                     "\n";
    return interrupted() ? was_interrupted : speaks ? our_error : fine;
  }
  if (!speaks) return fine;
  write_csv(folder / "sweep.csv", sweep_csv(plan, outcomes));
  if (!options.quiet)
    std::cout << ranking_text(plan, outcomes, options.ranking) << "\nResults: " << (folder / "sweep.csv").string() << std::endl;
  if (!std::cout) throw ScenarioError("standard output: cannot be written");
  if (failed == 0) return fine;
  std::cerr << failed << (failed == 1 ? " run" : " runs")
            << " failed three times, sweep.csv says how; remove the journal to try again\n";
  return our_error;
}

}  // namespace

std::function<int(const Registry&, const std::vector<std::string>&)> add_sweep_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("sweep", "Run a scenario for every point of a grid; rank the runs, and write one CSV file");
  const auto options = std::make_shared<SweepOptions>();
  command->add_option("SCENARIO", options->request.scenario, "YAML file")->required();
  command
      ->add_option("--grid", options->request.axes,
                   "A key of the scenario and its values, as in --grid batch.micro=1,2,4 --grid 'units=layer,{bucket: 25MB}'; "
                   "keys that move together: --grid batch.micro,batch.accumulation=1:8,2:4; may be repeated, and takes the place "
                   "of the key's values in the scenario's sweep: block")
      ->type_name("KEY=VALUES")
      ->allow_extra_args(false);
  command->add_option("--set", options->request.overrides, "Override a key of the scenario at every point; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      ->add_option("-o,--output", options->folder,
                   "Folder for sweep.csv and the journal, which a later or simultaneous sweep goes on with (default: "
                   "results/<name of the scenario file>-sweep)")
      ->type_name("DIR");
  command->add_option("--jobs", options->jobs, "Processes (default: one per core; under mpirun or srun, 1 per rank)")
      ->check(CLI::Range(1, 4096));
  command->add_option("--max", options->request.most, "Refuse a grid of more points (default: 10000)")
      ->check(CLI::Range(1, 100'000'000));
  command->add_option("--best", options->ranking.best, "Rank by this figure (default: step_seconds)")->type_name("FIGURE");
  command->add_flag("--fits", options->ranking.only_fitting, "Rank only what fits the GPUs' memory");
  command->add_option("--top", options->ranking.top, "Rows to print (default: 10)")->check(CLI::Range(1, 1'000'000));
  command->add_flag("--quiet", options->quiet, "Print neither the ranking nor progress");
  command->footer("Under mpirun or srun every rank takes runs, and the folder has to be one that all of them share.");
  return [options](const Registry& registry, const std::vector<std::string>& plugins) {
    options->request.libraries.assign(plugins.begin(), plugins.end());
    const SweepSeat seat = sweep_seat();
    try {
      return sweep(*options, registry, seat);
    } catch (const ScenarioError& error) {
      if (seat.rank == 0) throw;
      std::cerr << "rank " + std::to_string(seat.rank) + ": " + error.what() + "\n";
      return int(fine);  // a job that ends because of another rank's exit code would end the first before it could say why
    }
  };
}

}  // namespace shardsim
