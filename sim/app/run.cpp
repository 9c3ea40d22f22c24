// Run: a scheme's ranks on a backend, each with its model, its data and its books.
#include "app/run.h"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <new>

#include "app/score.h"
#include "app/share.h"
#include "backends/cuda/errors.h"
#include "core/band_scheme.h"
#include "core/error.h"
#include "formats/summary.h"

namespace shardsim {
namespace {

/// All ranks stop after the same step.
class StopAt {
 public:
  bool begins(int step) {
    const std::lock_guard lock(mutex_);
    if (interrupted() && stop_ == std::numeric_limits<int>::max()) stop_ = latest_ + 1;
    if (step < stop_) latest_ = std::max(latest_, step);
    return step < stop_;
  }

 private:
  std::mutex mutex_;
  int latest_ = -1, stop_ = std::numeric_limits<int>::max();
};

/// What the ranks of a run share, and what each leaves behind.
struct Ranks {
  const Work& work;
  Score* score;  ///< null: every rank has a scheme and a model of its own
  StopAt stop;
  struct Own {
    std::vector<StepReport> reports;
    std::vector<double> begin, end, host_begin;
    std::vector<Moved> moved;  // when each of the first two steps began
    Composition resident, host_resident;
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

Moved moved_by(const Device& device) {
  return {device.recorder().traffic_bytes(), device.recorder().control_bytes(), device.crossed()};
}

/// What a rank plays.
struct Play {
  std::unique_ptr<Model> own_model;  ///< null: the score's
  Model& model;
  std::unique_ptr<Scheme> scheme;
  const Scheme* told;  ///< whose facts this rank tells; null where others do
};

Play play_of(const Ranks& ranks, Device& device) {
  if (ranks.score)
    return {nullptr, ranks.score->model(), ranks.score->part(), device.rank() == 0 ? &ranks.score->scheme() : nullptr};
  std::unique_ptr<Model> model = ranks.work.set.model(device, device.rank());
  std::unique_ptr<Scheme> scheme = ranks.work.choice.make();
  Model& own = *model;
  const Scheme* told = scheme.get();
  return {std::move(model), own, std::move(scheme), told};
}

void train(Ranks& ranks, Device& device, Fabric& fabric) {
  const Scenario& scenario = ranks.work.scenario;
  Ranks::Own& own = ranks.own[device.rank()];
  const Play play = play_of(ranks, device);
  Scheme& scheme = *play.scheme;
  Rank rank{device,        fabric,        play.model, scenario.knobs, ranks.work.set.theta0(), ranks.work.choice.label,
            device.rank(), scenario.world};
  scheme.bind(rank);
  device.synchronize();
  own.reports.resize(scenario.steps);
  for (auto* dates : {&own.begin, &own.end, &own.host_begin}) dates->resize(scenario.steps);
  if (play.told) {
    own.units = scheme.units(), own.shard = scheme.shard(), own.has_closed_forms = scheme.has_closed_forms();
    own.shards = scheme.mesh().shards.size;
    if (dynamic_cast<const BandScheme*>(play.told)) own.unit_names = names_of(play.model, own.units);
  }
  for (int step = 0; step < scenario.steps; ++step) {
    if (interrupted() && scenario.nodes.count > 1) throw cuda::Interrupted();  // the other nodes may be steps ahead
    if (!ranks.stop.begins(step)) break;
    if (scenario.tells_timeline && device.rank() == 0 && step + 1 == scenario.steps) rank.timeline = &own.timeline;
    own.host_begin[step] = device.now();
    if (step < 2) own.moved.push_back(moved_by(device));
    device.stamp(Lane::compute, own.begin[step]);
    scheme.run_step(step, own.reports[step]);
    if (scenario.knobs.step_barrier) own.end[step] = device.answered();
    else device.stamp(Lane::compute, own.end[step]);
    own.steps = step + 1;
    if (device.rank() == 0 && ranks.work.progress) ranks.work.progress(step + 1, scenario.steps, device.now());
  }
  device.synchronize();
  if (!scenario.knobs.step_barrier && own.steps > 0) own.end[own.steps - 1] = device.answered();  // other streams may end later
  own.resident = device.ledger().parts(), own.host_resident = device.host_ledger().parts();
  own.allocated = device.ledger().allocator().allocated_now;  // before the model goes
  if (scenario.records_theta && own.steps > 0) own.theta = scheme.theta();
}

/// Seconds as the device counts them.
RankResult books_of(const Device& device, Ranks::Own& own, bool numerics, int first_steady) {
  RankResult result;
  if (own.steps > 0) result.unsteady = own.moved[std::size_t(first_steady)];
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
  result.allocator = device.ledger().allocator();
  result.allocator.allocated_now = own.allocated;
  const Moved moved = moved_by(device);
  result.traffic_bytes = moved.traffic_bytes, result.control_bytes = moved.control_bytes, result.crossed = moved.crossed;
  result.spans = device.recorder().spans();
  result.waits = device.recorder().waits();
  result.entries = device.ledger().entries();
  return result;
}

/// `classes`: the ranks that were simulated, and for whom.
using Classes = std::map<int, std::vector<int>>;

}  // namespace

std::string in_ranges(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0, j = 0; i < ranks.size(); i = j) {
    while (j < ranks.size() && ranks[j] == ranks[i] + int(j - i)) ++j;
    text += (i > 0 ? ", " : "") + std::to_string(ranks[i]) + (j - i > 1 ? "-" + std::to_string(ranks[j - 1]) : "");
  }
  return text;
}

SchemeResult run_on(Backend& backend, const Work& work, const Cast& cast) {
  const Scenario& scenario = work.scenario;
  const std::string& label = work.choice.label;
  Ranks ranks{work, cast.score, {}, std::vector<Ranks::Own>(std::size_t(scenario.world))};
  const auto body = [&](Device& device, Fabric& fabric) {
    const auto where = [&] {
      return "scheme '" + label + "', rank " + std::to_string(device.rank()) + ", step " +
             std::to_string(ranks.own[device.rank()].steps) + ": ";
    };
    try {
      train(ranks, device, fabric);
    } catch (const IllegalStep& error) {
      throw IllegalStep(where() + error.what());
    } catch (const cuda::OutOfMemory& error) {
      throw ScenarioError(where() + error.what());
    } catch (const cuda::GpuError& error) {
      throw cuda::GpuError(where() + error.what());
    } catch (const cuda::Interrupted&) {
      throw;
    } catch (const cuda::Stopped&) {
      throw;
    } catch (const ScenarioError&) {
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      throw IllegalStep(where() + "an exception came out of it: " + error.what());
    }
  };
  try {
    backend.run(scenario.world, body);
  } catch (const std::exception&) {
    throw;
  } catch (...) {
    throw IllegalStep("scheme '" + label + "': something came out of it that is no std::exception");
  }
  const bool numerics = scenario.numerics != Numerics::off;
  Share share;
  const Crew& crew = cast.crew;
  const int first = crew.first, last = crew.ranks > 0 ? first + crew.ranks : scenario.world;
  SchemeResult& result = share.result;
  Ranks::Own& told = ranks.own[first];
  result.scheme = label, result.backend = scenario.backend, result.world = scenario.world;
  result.steps = told.steps, result.interrupted = result.steps < scenario.steps;
  result.first_steady = scenario.knobs.step_barrier ? formats::first_steady(result.steps) : 0;
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
  for (int rank = first; rank < last; ++rank) classes[cast.representative ? cast.representative(rank) : rank].push_back(rank);
  for (const auto& [rank, members] : classes) {
    result.ranks.push_back(books_of(backend.device(rank), ranks.own[rank], numerics, result.first_steady));
    result.ranks.back().rank = rank, result.ranks.back().ranks = int(members.size());
    if (cast.representative) result.ranks.back().stands_for = in_ranges(members);
    result.ranks.back().allocator_history = backend.allocator_history(rank);
  }
  const bool has_theta = numerics && scenario.records_theta && result.steps > 0;
  for (int rank = first; has_theta && rank < last; ++rank) share.theta.push_back(std::move(ranks.own[rank].theta));
  return whole_of(std::move(share), crew);
}

}  // namespace shardsim
