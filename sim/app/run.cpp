// Run: a scheme's ranks, each with its model, its data and its books, on the backend that the scenario names.
#include "app/run.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <system_error>

#include "app/archive.h"
#include "app/on_gpus.h"
#include "app/process.h"
#include "app/programs.h"
#include "app/score.h"
#include "app/share.h"
#include "backends/cuda/errors.h"
#include "backends/simgrid/backend.h"
#include "backends/threads/backend.h"
#include "core/band_scheme.h"
#include "core/error.h"

namespace shardsim {
namespace {

/// All ranks stop after the same step.
class StopAt {
 public:
  bool begins(int step) {
    const std::lock_guard lock(mutex_);
    if (step < stop_) latest_ = std::max(latest_, step);
    if (interrupted() && stop_ == std::numeric_limits<int>::max()) stop_ = latest_ + 1;
    return step < stop_;
  }

 private:
  std::mutex mutex_;
  int latest_ = 0, stop_ = std::numeric_limits<int>::max();
};

/// What the ranks of a run share, and what each leaves behind.
struct Ranks {
  const Scenario& scenario;
  const SchemeChoice& choice;
  const Progress& progress;
  const TrainingSet& set;
  Score* score;  ///< null: every rank has a scheme and a model of its own
  StopAt stop;
  struct Own {
    std::vector<StepReport> reports;
    std::vector<double> begin, end, host_begin;
    std::vector<Part> resident, host_resident;
    std::int64_t allocated = 0;  // between steps, by PyTorch's count
    std::vector<ThetaPiece> theta;
    std::vector<Unit> units;
    std::vector<TimelineEntry> timeline;
    ShardSet shard;
    bool has_closed_forms = true;
    int shards = 1, steps = 0;
    std::vector<std::string> unit_names;
  };
  std::vector<Own> own;
};

/// Of each unit the module, or the first and the last: "block3", "embedding to head".
std::vector<std::string> names_of(const Model& model, const std::vector<Unit>& units) {
  const auto module_name = [&](int module) {
    const std::string weight = model.layout(module).empty() ? "" : model.layout(module).front().name;
    const std::string name = weight.substr(0, weight.find('.'));
    return name.empty() ? "module " + std::to_string(module) : name;
  };
  std::vector<std::string> names;
  for (const Unit& unit : units) {
    names.push_back(module_name(unit.first));
    if (unit.last - unit.first > 1) names.back() += " to " + module_name(unit.last - 1);
  }
  return names;
}

void train(Ranks& ranks, Device& device, Fabric& fabric) {
  const Scenario& scenario = ranks.scenario;
  Ranks::Own& own = ranks.own[device.rank()];
  const std::unique_ptr<Model> own_model = ranks.score ? nullptr : ranks.set.model(device, device.rank());
  const std::unique_ptr<Scheme> scheme = ranks.score ? ranks.score->part() : ranks.choice.make();
  Model& model = ranks.score ? ranks.score->model() : *own_model;
  Rank rank{device, fabric, model, scenario.knobs, ranks.set.theta0(), ranks.choice.label, device.rank(), scenario.world};
  scheme->bind(rank);
  device.synchronize();
  own.reports.resize(scenario.steps);
  for (auto* dates : {&own.begin, &own.end, &own.host_begin}) dates->resize(scenario.steps);
  if (!ranks.score || device.rank() == 0) {
    own.units = scheme->units(), own.shard = scheme->shard(), own.has_closed_forms = scheme->has_closed_forms();
    own.shards = scheme->mesh().shards.size;
    const Scheme* original = ranks.score ? &ranks.score->scheme() : scheme.get();
    if (dynamic_cast<const BandScheme*>(original)) own.unit_names = names_of(model, own.units);
  }
  for (int step = 0; step < scenario.steps && ranks.stop.begins(step); ++step) {
    if (interrupted() && scenario.nodes.count > 1) throw cuda::GpuError("interrupted");  // the other nodes may be steps ahead
    if (scenario.tells_timeline && device.rank() == 0 && step + 1 == scenario.steps) rank.timeline = &own.timeline;
    own.host_begin[step] = device.now();
    device.stamp(Lane::compute, own.begin[step]);
    scheme->run_step(step, own.reports[step]);
    if (scenario.knobs.step_barrier) own.end[step] = device.now();
    else device.stamp(Lane::compute, own.end[step]);
    own.steps = step + 1;
    if (device.rank() == 0 && ranks.progress) ranks.progress(step + 1, scenario.steps, device.now());
  }
  device.synchronize();
  if (!scenario.knobs.step_barrier && own.steps > 0) own.end[own.steps - 1] = device.now();  // other streams may end later
  own.resident = device.ledger().parts(), own.host_resident = device.host_ledger().parts();
  own.allocated = device.ledger().allocator().allocated_now;  // before the model goes
  own.theta = scheme->theta();
}

/// Seconds as the device counts them.
RankResult books_of(const Device& device, Ranks::Own& own, bool recorded, bool numerics) {
  RankResult result;
  for (int step = 0; step < own.steps; ++step) {
    const StepReport& report = own.reports[step];
    if (numerics && !report.loss.empty()) result.losses.push_back(report.loss[0]);
    if (numerics && !report.scaler.empty())
      result.loss_scales.push_back(report.scaler[0]), result.updates.push_back(report.scaler[2]);
  }
  const auto of_steps = [&own](const std::vector<double>& times) {
    return std::vector<double>(times.begin(), times.begin() + own.steps);
  };
  result.step_begin = of_steps(own.begin), result.step_end = of_steps(own.end);
  result.host_step_begin = of_steps(own.host_begin);
  result.peak = device.ledger().peak();
  result.model_state_peak = device.ledger().model_state_peak();
  result.host_peak = device.host_ledger().peak();
  result.resident = std::move(own.resident), result.host_resident = std::move(own.host_resident);
  result.crossed = device.crossed();
  result.allocator = device.ledger().allocator();
  result.allocator.allocated_now = own.allocated;
  result.traffic_bytes = device.recorder().traffic_bytes();
  result.control_bytes = device.recorder().control_bytes();
  if (!recorded) return result;
  result.spans = device.recorder().spans();
  result.waits = device.recorder().waits();
  result.entries = device.ledger().entries();
  return result;
}

/// `classes`: the ranks that were simulated, and for whom.
using Classes = std::map<int, std::vector<int>>;

/// "0-5, 7".
std::string in_ranges(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0, j = 0; i < ranks.size(); i = j) {
    while (j < ranks.size() && ranks[j] == ranks[i] + int(j - i)) ++j;
    text += (i > 0 ? ", " : "") + std::to_string(ranks[i]) + (j - i > 1 ? "-" + std::to_string(ranks[j - 1]) : "");
  }
  return text;
}

}  // namespace

SchemeResult run_on(Backend& backend, const Scenario& scenario, const TrainingSet& set, const SchemeChoice& choice,
                    const Progress& progress, const std::function<int(int)>& representative, const Crew& crew, Score* score) {
  Ranks ranks{scenario, choice, progress, set, score, {}, std::vector<Ranks::Own>(std::size_t(scenario.world))};
  const auto body = [&ranks](Device& device, Fabric& fabric) {
    const std::string where = "scheme '" + ranks.choice.label + "', rank " + std::to_string(device.rank()) + ", step ";
    auto step = [&] { return std::to_string(ranks.own[device.rank()].steps) + ": "; };
    try {
      train(ranks, device, fabric);
    } catch (const IllegalStep& error) {
      throw IllegalStep(where + step() + error.what());
    } catch (const cuda::OutOfMemory& error) {
      throw ScenarioError(where + step() + error.what());
    } catch (const cuda::GpuError& error) {
      throw cuda::GpuError(where + step() + error.what());
    } catch (const ScenarioError&) {
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      throw IllegalStep(where + step() + "an exception came out of it: " + error.what());
    }
  };
  try {
    backend.run(scenario.world, body);
  } catch (const std::exception&) {
    throw;
  } catch (...) {
    throw IllegalStep("scheme '" + choice.label + "': something came out of it that is no std::exception");
  }
  const bool numerics = scenario.numerics != Numerics::off;
  Share share;
  const int first = crew.first, last = crew.ranks > 0 ? first + crew.ranks : scenario.world;
  SchemeResult& result = share.result;
  Ranks::Own& told = ranks.own[first];
  result.scheme = choice.label, result.backend = scenario.backend, result.world = scenario.world;
  result.steps = told.steps, result.interrupted = result.steps < scenario.steps;
  result.has_closed_forms = told.has_closed_forms;
  result.timeline = told.timeline;
  result.unit_names = told.unit_names;
  result.shard = told.shard, result.shards = told.shards;
  for (const Unit& unit : told.units) {
    result.unit_parameters.push_back(unit.count.charged());
    result.parameters += unit.count.charged();
    result.padding += unit.padded.charged() - unit.count.charged();
  }
  share.units = told.units;
  Classes classes;
  for (int rank = first; rank < last; ++rank) classes[representative ? representative(rank) : rank].push_back(rank);
  for (const auto& [rank, members] : classes) {
    result.ranks.push_back(books_of(backend.device(rank), ranks.own[rank], scenario.recorded_ranks.has(rank), numerics));
    result.ranks.back().rank = rank, result.ranks.back().ranks = int(members.size());
    if (representative) result.ranks.back().stands_for = in_ranges(members);
    result.ranks.back().allocator_history = backend.allocator_history(rank);
  }
  for (int rank = first; numerics && rank < last; ++rank) share.theta.push_back(std::move(ranks.own[rank].theta));
  return whole_of(std::move(share), crew);
}

namespace {

/// "512 ranks are simulated as 2: rank 0 for 0-3, 5-511; rank 4 for 4."
std::string folding_words(const FoldingPlan& plan, const SimgridBackend& backend, const SchemeResult& result) {
  if (!plan.programs) return plan.why_not.empty() ? "" : "ranks are not folded: " + plan.why_not + ".";
  if (!backend.folds())
    return "ranks are not folded: with jitter nodes differ in every step; ranks: folded gives each class its slowest node's.";
  constexpr std::size_t most = 4;
  std::string text = std::to_string(result.world) + " ranks are simulated as " + std::to_string(result.ranks.size()) + ":";
  for (std::size_t i = 0; i < std::min(most, result.ranks.size()); ++i)
    text += (i > 0 ? "; rank " : " rank ") + std::to_string(result.ranks[i].rank) + " for " + result.ranks[i].stands_for;
  if (result.ranks.size() > most) text += "; and so on (summary.json: rank_classes)";
  return text + (backend.has_jitter() ? "; in every step a class has the jitter of its slowest node." : ".");
}

void fill(BackendSettings& settings, const Scenario& scenario, std::atomic<std::uint64_t>* pulse) {
  settings.numerics = scenario.numerics != Numerics::off;
  settings.checks_hazards = scenario.checks_hazards;
  settings.recorded_ranks = scenario.recorded_ranks;
  settings.pulse = pulse;
}

SchemeResult run_on_simgrid(const Scenario& scenario, const TrainingSet& set, const SchemeChoice& choice, const Progress& progress,
                            std::atomic<std::uint64_t>* pulse, int messages) {
  SimgridSettings settings;
  fill(settings, scenario, pulse);
  settings.fidelity = scenario.fabric, settings.latency = scenario.latency;
  settings.collectives = scenario.collectives, settings.seed = scenario.seed;
  settings.platform = scenario.platform, settings.prices = scenario.prices, settings.memory = scenario.memory;
  settings.messages = messages, settings.tracing = scenario.simgrid_tracing;
  settings.launch_queue = scenario.launch_queue;
  const FoldingPlan plan = plan_folding(scenario, set, choice);
  settings.programs = plan.programs, settings.folds_jitter = scenario.folds == Folds::folded;
  cost::PriceNotes notes;
  if (scenario.notes_prices) settings.notes = &notes;
  SimgridBackend backend(settings);
  const auto representative = [&backend](int rank) { return backend.representative(rank); };
  const std::unique_ptr<Score> score = plan.programs ? nullptr : score_of(scenario, set, choice);
  SchemeResult done = run_on(backend, scenario, set, choice, progress, representative, {}, score.get());
  if (!backend.folds())
    for (RankResult& rank : done.ranks) rank.stands_for.clear();
  done.folding = folding_words(plan, backend, done);
  done.gpu = backend.gpu(0);
  done.notes = notes.all();
  for (const auto& [link, bytes] : backend.link_bytes()) done.links.push_back({link, bytes});
  return done;
}

SchemeResult run_on_threads(const Scenario& scenario, const TrainingSet& set, const SchemeChoice& choice, const Progress& progress,
                            std::atomic<std::uint64_t>* pulse) {
  BackendSettings settings;
  fill(settings, scenario, pulse);
  ThreadsBackend backend(settings);
  SchemeResult done;
  try {
    done = run_on(backend, scenario, set, choice, progress);
  } catch (const std::system_error&) {
    throw ScenarioError(scenario.file.string() + ": world: this machine has not enough threads for " +
                        std::to_string(scenario.world) + " ranks; lower world or use backend: simgrid");
  }
  done.gpu.name = "CPU threads";
  return done;
}

SchemeResult run_on_cuda(const Scenario& scenario, const TrainingSet& set, const SchemeChoice& choice, const Progress& progress,
                         std::atomic<std::uint64_t>* pulse) {
  BackendSettings settings;
  fill(settings, scenario, pulse);
  const OnGpus gpus = on_gpus(scenario, choice, settings);
  try {
    SchemeResult done = run_on(*gpus.backend, scenario, set, choice, progress, {}, gpus.crew);
    done.gpu.name = gpus.gpu;
    return done;
  } catch (...) {
    if (gpus.tell) gpus.tell(std::current_exception());
    throw;
  }
}

enum Tag : char { result, illegal, scenario_error, no_memory, other };

/// The run's result or its error, as bytes; in a process of its own.
std::string answer_of(const Scenario& scenario, const TrainingSet& set, const SchemeChoice& choice, const Progress& progress,
                      std::atomic<std::uint64_t>* pulse, int messages) {
  catch_interrupts(false);  // it may come twice: from the terminal and from our parent
  auto tagged = [](Tag tag, const std::string& text) { return char(tag) + text; };
  try {
    SchemeResult done = scenario.backend == "simgrid" ? run_on_simgrid(scenario, set, choice, progress, pulse, messages)
                        : scenario.backend == "cuda"  ? run_on_cuda(scenario, set, choice, progress, pulse)
                                                      : run_on_threads(scenario, set, choice, progress, pulse);
    Archive archive;
    archive(done);
    return tagged(result, archive.bytes());
  } catch (const IllegalStep& error) {
    return tagged(illegal, error.what());
  } catch (const ScenarioError& error) {
    return tagged(scenario_error, error.what());
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
  const ProcessEnd end =
      run_in_process([&](int messages) { return answer_of(scenario, set, choice, progress, pulse.get(), messages); },
                     {interrupted, pulse.get(), scenario.patience});
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
  const std::string text = end.answer.substr(1);
  switch (Tag(end.answer[0])) {
    case illegal:
      throw IllegalStep(text);
    case scenario_error:
      throw ScenarioError(in_users_words(text, scenario));
    case no_memory:
      throw std::bad_alloc();
    case other:
      throw std::runtime_error("scheme '" + choice.label + "': " + text);
    case result:
      break;
  }
  SchemeResult done;
  Archive archive(text);
  archive(done);
  return done;
}

}  // namespace shardsim
