// Sweep: forked workers that claim runs in the journal, each of which runs in a process of its own (app/run.h).
#include "app/sweep.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>

#include "app/metrics.h"
#include "app/run.h"
#include "app/scenario.h"
#include "app/scenario_schemes.h"
#include "app/sweep_rows.h"
#include "core/error.h"

namespace shardsim {
namespace {

/// Nothing if interrupted.
std::optional<std::string> outcome_of_run(const SweepPlan& plan, const SweepRun& run, const Registry& registry) {
  try {
    const Scenario scenario = scenario_of(plan.file, plan.tree(run.point), registry);
    const SchemeResult result = run_scheme(scenario, TrainingSet(scenario), *find_choice(scenario.schemes, run.scheme));
    if (result.interrupted) return std::nullopt;
    return outcome_of(measure(scenario, result));
  } catch (const ScenarioError& error) {
    return outcome_without_figures("refused", error.what());
  } catch (const IllegalStep& error) {
    return outcome_without_figures("refused", error.what());
  } catch (const std::bad_alloc&) {
    return outcome_without_figures("failed", "this machine has not enough memory for it");
  } catch (const std::exception& error) {
    return outcome_without_figures("failed", error.what());
  }
}

/// First what nobody has claimed, then what others claimed and, for whatever reason, did not do.
void work(const SweepPlan& plan, const std::filesystem::path& file, const Registry& registry) {
  SweepJournal journal(file);
  for (const bool waits : {false, true})
    for (const SweepRun& run : plan.runs)
      while (run.refusal.empty()) {
        if (interrupted()) return;
        journal.read();
        if (journal.find(run.key) || !journal.claim(run.key, waits)) break;
        journal.read();  // the one who had the claim may have done it
        if (!journal.find(run.key))
          if (const auto outcome = outcome_of_run(plan, run, registry); outcome && !interrupted()) journal.add(run.key, *outcome);
        journal.release(run.key);
      }
}

/// A pipe through which processes say in a line why they give up; only the first is told, since all of them mean the same.
class LastWords {
 public:
  LastWords() {
    if (pipe2(ends_, O_CLOEXEC | O_NONBLOCK) != 0) throw std::runtime_error("cannot make a pipe");
  }
  ~LastWords() { close(ends_[0]), close(ends_[1]); }
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

  void say(const std::string& line) const {
    if (write(ends_[1], (line + "\n").data(), line.size() + 1) < 0) return;  // full of what others said
  }
  std::string first() const {
    char buffer[4096];
    const ssize_t n = read(ends_[0], buffer, sizeof buffer);
    const std::string said(buffer, std::size_t(std::max<ssize_t>(n, 0)));
    return said.substr(0, said.find('\n'));
  }

 private:
  int ends_[2];
};

pid_t started(const std::function<void()>& body, const LastWords& words) {
  std::fflush(nullptr);
  const pid_t process = fork();
  if (process < 0) throw std::runtime_error("cannot start a process: fork failed");
  if (process > 0) return process;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  catch_interrupts(false);
  int code = 0;
  try {
    body();
  } catch (const ScenarioError& error) {
    words.say(error.what());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    code = 1;
  }
  std::fflush(nullptr);
  _exit(code);
}

}  // namespace

SweepSeat sweep_seat() {
  const auto number = [](const char* name) {
    const char* text = std::getenv(name);
    int value = -1;
    return text && std::from_chars(text, text + std::strlen(text), value).ec == std::errc() ? value : -1;
  };
  for (const auto& [rank, size] : {std::pair{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                   {"PMI_RANK", "PMI_SIZE"},
                                   {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}})
    if (number(rank) >= 0 && number(size) > number(rank)) return {number(rank), number(size)};
  return {};
}

SweepEnd carry_out(const SweepPlan& plan, const std::filesystem::path& file, int jobs, const Registry& registry,
                   const SweepProgress& progress) {
  const LastWords words;
  const auto worker = [&] { return started([&] { work(plan, file, registry); }, words); };
  std::vector<pid_t> workers;
  for (int i = 0; i < jobs; ++i) workers.push_back(worker());
  std::string ends;
  for (int replacements = 3 * jobs; !workers.empty();) {
    usleep(100'000);
    if (interrupted())  // the one who waits may have been told alone
      for (const pid_t process : workers) kill(process, SIGINT);
    std::erase_if(workers, [&](pid_t& process) {
      int status = 0;
      if (waitpid(process, &status, WNOHANG) == 0) return false;
      if (WIFEXITED(status)) {
        if (WEXITSTATUS(status) != 0) ends += "; a process ended with exit code " + std::to_string(WEXITSTATUS(status));
        return true;
      }
      ends += "; a process was ended by signal " + std::to_string(WTERMSIG(status));
      if (interrupted() || replacements-- == 0) return true;
      process = worker();
      return false;
    });
    if (progress) progress();
  }
  return {words.first(), ends.empty() ? ends : ends.substr(2)};
}

}  // namespace shardsim
