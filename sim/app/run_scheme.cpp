// Run: a scheme in a process of its own, on the backend that the scenario names, and what becomes of its error.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <new>
#include <system_error>

#include "app/archive.h"
#include "app/on_gpus.h"
#include "app/process.h"
#include "app/programs.h"
#include "app/run.h"
#include "app/score.h"
#include "backends/cuda/errors.h"
#include "backends/simgrid/backend.h"
#include "backends/threads/backend.h"
#include "core/error.h"

namespace shardsim {
namespace {

/// Whether two ranks sent and held the same: the ranks of some schemes own different parts of the model. (Control is a few bytes,
/// which no world divides evenly.)
bool did_the_same(const RankResult& a, const RankResult& b) {
  return a.traffic_bytes == b.traffic_bytes && a.resident == b.resident && a.peak.parts == b.peak.parts &&
         a.host_resident == b.host_resident && a.host_peak.parts == b.host_peak.parts;
}

/// "In traces, CSVs and compute times: only ranks 0-7 (record: ranks)."; empty where all are, or those that are show what all do.
std::string recorded_words(const SimgridBackend& backend, const SchemeResult& result, bool are_alike) {
  std::vector<int> recorded;
  for (const RankResult& rank : result.ranks)
    if (rank.is_recorded()) recorded.push_back(rank.rank);
  if (recorded.empty() || recorded.size() == result.ranks.size()) return {};
  const auto is_shown = [&](const RankResult& rank) {
    return std::any_of(recorded.begin(), recorded.end(), [&](int shown) {
      return backend.gpu(rank.rank) == backend.gpu(shown) && did_the_same(rank, result.of(shown));
    });
  };
  are_alike = are_alike && std::all_of(result.ranks.begin(), result.ranks.end(), is_shown);
  if (are_alike) return {};
  return "In traces, CSVs and compute times: only " + std::string(recorded.size() > 1 ? "ranks " : "rank ") + in_ranges(recorded) +
         " (record: ranks).";
}

/// "512 ranks are simulated as 2: rank 0 for 0-3, 5-511; rank 4 for 4."
std::string folding_words(const FoldingPlan& plan, const SimgridBackend& backend, const SchemeResult& result) {
  const std::string recorded = recorded_words(backend, result, !backend.folds() && !backend.has_jitter());
  const auto with_recorded = [&recorded](std::string text) {
    if (!text.empty() && !recorded.empty()) text += " ";
    return text + recorded;
  };
  if (!plan.programs) return with_recorded(plan.why_not.empty() ? "" : "ranks are not folded: " + plan.why_not + ".");
  if (!backend.folds())
    return with_recorded(
        "ranks are not folded: with jitter nodes differ in every step; ranks: folded gives each class its slowest node's.");
  constexpr std::size_t most = 4;
  std::string text = std::to_string(result.world) + " ranks are simulated as " + std::to_string(result.ranks.size()) + ":";
  for (std::size_t i = 0; i < std::min(most, result.ranks.size()); ++i)
    text += (i > 0 ? "; rank " : " rank ") + std::to_string(result.ranks[i].rank) + " for " + result.ranks[i].stands_for;
  if (result.ranks.size() > most) text += "; and so on (summary.json: rank_classes)";
  return with_recorded(text + (backend.has_jitter() ? "; in every step a class has the jitter of its slowest node." : "."));
}

void fill(BackendSettings& settings, const Scenario& scenario, std::atomic<std::uint64_t>* pulse) {
  settings.numerics = scenario.numerics != Numerics::off;
  settings.checks_hazards = scenario.checks_hazards;
  settings.recorded_ranks = scenario.recorded_ranks;
  settings.pulse = pulse;
}

SchemeResult run_on_simgrid(const Work& work, std::atomic<std::uint64_t>* pulse, int messages) {
  const Scenario& scenario = work.scenario;
  SimgridSettings settings;
  fill(settings, scenario, pulse);
  settings.fidelity = scenario.fabric, settings.latency = scenario.latency;
  settings.collectives = scenario.collectives, settings.seed = scenario.seed;
  settings.platform = scenario.platform, settings.prices = scenario.prices, settings.memory = scenario.memory;
  settings.messages = messages, settings.tracing = scenario.simgrid_tracing;
  settings.launch_queue = scenario.launch_queue;
  const FoldingPlan plan = plan_folding(scenario, work.set, work.choice);
  settings.programs = plan.programs, settings.folds_jitter = scenario.folds == Folds::folded;
  cost::PriceNotes notes;
  if (scenario.noted_rank) settings.notes = &notes, settings.noted_rank = *scenario.noted_rank;
  SimgridBackend backend(settings);
  const std::unique_ptr<Score> score = plan.programs ? nullptr : score_of(scenario, work.set, work.choice);
  SchemeResult done = run_on(
      backend, work, {.representative = [&backend](int rank) { return backend.representative(rank); }, .score = score.get()});
  if (!backend.folds())
    for (RankResult& rank : done.ranks) rank.stands_for.clear();
  done.folding = folding_words(plan, backend, done);
  done.gpu = backend.gpu(0);
  if (scenario.noted_rank) {
    done.notes = notes.all(), done.noted_rank = backend.representative(*scenario.noted_rank);
    std::vector<int> equal;
    for (int rank = 0; rank < scenario.world; ++rank)
      if (backend.gpu(rank) == backend.gpu(*scenario.noted_rank)) equal.push_back(rank);
    if (int(equal.size()) < scenario.world) done.noted_for = in_ranges(equal);
  }
  for (const auto& [link, bytes] : backend.link_bytes()) done.links.push_back({link, bytes});
  return done;
}

SchemeResult run_on_threads(const Work& work, std::atomic<std::uint64_t>* pulse) {
  BackendSettings settings;
  fill(settings, work.scenario, pulse);
  ThreadsBackend backend(settings);
  SchemeResult done;
  try {
    done = run_on(backend, work);
  } catch (const std::system_error&) {
    throw ScenarioError(work.scenario.file.string() + ": world: this machine has not enough threads for " +
                        std::to_string(work.scenario.world) + " ranks; lower world or use backend: simgrid");
  }
  done.gpu.name = "CPU threads";
  return done;
}

SchemeResult run_on_cuda(const Work& work, std::atomic<std::uint64_t>* pulse) {
  BackendSettings settings;
  fill(settings, work.scenario, pulse);
  const OnGpus gpus = on_gpus(work.scenario, settings);
  try {
    SchemeResult done = run_on(*gpus.backend, work, {.crew = gpus.crew});
    if (gpus.part) gpus.part();
    done.gpu.name = gpus.gpu;
    return done;
  } catch (const cuda::NodeGone& error) {
    throw cuda::GpuError("scheme '" + work.choice.label + "': " + error.what());
  } catch (...) {
    if (gpus.tell) gpus.tell(std::current_exception());
    throw;
  }
}

enum Tag : char { result, illegal, scenario_error, gpu_error, stopped, no_memory, other };

/// The run's result or its error, as bytes; in a process of its own.
std::string answer_of(const Work& work, std::atomic<std::uint64_t>* pulse, int messages) {
  catch_interrupts(false);                       // it may come twice: from the terminal and from our parent
  auto tagged = [](Tag tag, std::string text) {  // behind it: a result may be gigabytes
    text += char(tag);
    return text;
  };
  try {
    const std::string& backend = work.scenario.backend;
    SchemeResult done = backend == "simgrid" ? run_on_simgrid(work, pulse, messages)
                        : backend == "cuda"  ? run_on_cuda(work, pulse)
                                             : run_on_threads(work, pulse);
    Archive archive;
    archive(done);
    return tagged(result, std::move(archive).bytes());
  } catch (const IllegalStep& error) {
    return tagged(illegal, error.what());
  } catch (const ScenarioError& error) {
    return tagged(scenario_error, error.what());
  } catch (const cuda::GpuError& error) {
    return tagged(gpu_error, error.what());
  } catch (const cuda::Interrupted&) {
    return tagged(stopped, {});
  } catch (const std::bad_alloc&) {
    return tagged(no_memory, {});
  } catch (const std::exception& error) {
    return tagged(other, error.what());
  }
}

/// A machine that the scenario says in numbers lies in a file of ours, which the user has never seen.
std::string in_users_words(std::string text, const Scenario& scenario) {
  const std::string file = scenario.platform.string();
  if (!scenario.generated_platform) return text;
  for (std::size_t at; (at = text.find(file)) != std::string::npos;)
    text.replace(at, file.size(), scenario.file.string() + ": platform");
  return text;
}

}  // namespace

SchemeResult run_scheme(const Scenario& scenario, const TrainingSet& set, const SchemeChoice& choice, const Progress& progress) {
  check_that_numbers_fit(scenario, choice);
  SharedCounter pulse;
  const Work work{scenario, set, choice, progress};
  ProcessEnd end = run_in_process([&](int messages) { return answer_of(work, pulse.get(), messages); },
                                  {interrupted, pulse.get(), scenario.patience});
  if (end.hung || !end.answered) leave_nodes(scenario, nullptr);
  if (end.hung)
    throw IllegalStep("scheme '" + choice.label + "': nothing was finished for " +
                      std::to_string(int(std::ceil(scenario.patience))) +
                      " s, so its step() hangs; it was ended (patience: in the scenario says how long to wait)");
  if (!end.answered) {
    const std::vector<std::string>& tracing = scenario.simgrid_tracing;
    const char topology[] = "tracing/platform/topology:no";
    if (!tracing.empty())
      throw ScenarioError("--cfg=" + tracing.front() + ": SimGrid's tracing ended the run with " + end.how +
                          (std::count(tracing.begin(), tracing.end(), topology) > 0
                               ? "; leave out an option, or trace without it"
                               : std::string("; it cannot draw both ways of a split-duplex link: add --cfg=") + topology));
    if (const std::string text = platform_refusal(end.messages, scenario.platform); !text.empty())
      throw ScenarioError(in_users_words(text, scenario));
    if (end.how == "signal 9") throw std::bad_alloc();  // how the system takes back memory that it has not got
    throw std::runtime_error("scheme '" + choice.label + "': the run ended with " + end.how);
  }
  std::string text = std::move(end.answer);
  const Tag tag = Tag(text.back());
  text.pop_back();
  switch (tag) {
    case illegal:
      throw IllegalStep(text);
    case scenario_error:
      throw ScenarioError(in_users_words(text, scenario));
    case gpu_error:
      throw cuda::GpuError(text);
    case stopped:
      throw cuda::Interrupted();
    case no_memory:
      throw std::bad_alloc();
    case other:
      throw std::runtime_error("scheme '" + choice.label + "': " + text);
    case result:
      break;
  }
  SchemeResult done;
  Archive archive(std::move(text));
  archive(done);
  return done;
}

}  // namespace shardsim
