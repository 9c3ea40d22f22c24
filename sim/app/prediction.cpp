// Prediction: a row becomes a scenario, runs, and what the table measures is read off.
#include "app/prediction.h"

#include <algorithm>

#include "app/metrics.h"
#include "app/run.h"
#include "app/scenario.h"
#include "app/training_set.h"
#include "core/error.h"

namespace shardsim {
namespace {

/// From the third micro-batch on, every one adds the same.
constexpr int settled = 3;

/// "--set model.x: what" becomes "table.csv:7: column model.x: what" where the row said so.
std::string placed(const std::string& message, const MeasuredRow& row) {
  const std::string prefix = "--set ";
  if (!message.starts_with(prefix)) return row.place + ": " + message;
  for (const std::string& own : row.overrides) {
    const std::string column = own.substr(0, own.find('='));
    if (message.compare(prefix.size(), column.size(), column) == 0) return row.place + ": column " + message.substr(prefix.size());
  }
  return message;
}

Scenario scenario_of(const MeasurementTable& table, const MeasuredRow& row, const std::vector<std::string>& more,
                     const Registry& registry) {
  std::vector<std::string> overrides = row.overrides;
  overrides.insert(overrides.end(), more.begin(), more.end());
  try {
    Scenario scenario = read_scenario(table.base, overrides, registry);
    if (scenario.schemes.size() != 1)
      throw ScenarioError("a row is a run of one scheme, but " + table.base.string() + " lists " +
                          std::to_string(scenario.schemes.size()) + "; keep one, or make schemes a column");
    if (scenario.backend != "simgrid") {
      const bool is_override =
          std::any_of(overrides.begin(), overrides.end(), [](const std::string& each) { return each.starts_with("backend="); });
      throw ScenarioError((is_override ? "--set" : table.base.string() + ":") +
                          " backend: a prediction is of simulated seconds; write backend: simgrid");
    }
    scenario.recorded_ranks = 1, scenario.checks_hazards = false;  // changes no figure
    return scenario;
  } catch (const ScenarioError& error) {
    throw ScenarioError(placed(error.what(), row));
  }
}

SchemeResult run_of(const Scenario& scenario, const MeasuredRow& row) {
  try {
    return run_scheme(scenario, TrainingSet(scenario), scenario.schemes[0]);
  } catch (const ScenarioError& error) {
    throw ScenarioError(placed(error.what(), row));
  } catch (const IllegalStep& error) {
    throw IllegalStep(row.place + ": " + error.what());
  }
}

Verb verb_of(Measurand measurand) {
  return measurand == Measurand::all_reduce       ? Verb::all_reduce
         : measurand == Measurand::reduce_scatter ? Verb::reduce_scatter
                                                  : Verb::all_gather;
}

/// The mean over the collectives of this kind.
void read_collectives(const SchemeResult& result, const MeasuredRow& row, Measurand measurand, Prediction& prediction) {
  int n = 0;
  for (const Span& span : result.ranks.front().spans) {
    if (span.op != Span::collective || span.control || span.verb != verb_of(measurand)) continue;
    prediction.seconds += span.end - span.begin;
    prediction.bytes = span.size;
    ++n;
  }
  if (n == 0)
    throw ScenarioError(row.place + ": " + column_of(measurand) + ": the scheme '" + result.scheme + "' runs no such collective");
  prediction.seconds /= n;
}

double step_seconds(const Scenario& scenario, const SchemeResult& result) { return measure(scenario, result).step_seconds.max; }

}  // namespace

Prediction predict(const MeasurementTable& table, const MeasuredRow& row, const std::vector<std::string>& more,
                   const Registry& registry) {
  Scenario scenario = scenario_of(table, row, more, registry);
  const int micro_batches = scenario.knobs.accumulation;
  scenario.knobs.accumulation = std::min(micro_batches, settled);
  const SchemeResult result = run_of(scenario, row);
  const formats::Figures figures = measure(scenario, result);
  Prediction prediction;
  prediction.world = result.world;
  prediction.shards_parameters = result.shard.has(Band::param);
  prediction.attention_64 = result.gpu.attention_64.flops, prediction.attention_128 = result.gpu.attention_128.flops;
  const double step = figures.step_seconds.max, capacity = double(std::max<std::int64_t>(1, result.gpu.memory_bytes));
  prediction.idle = std::max(0.0, 1 - (figures.compute_seconds.max + figures.exposed_comm_seconds.max) / step);
  prediction.peak = double(figures.peak_bytes.max) / capacity,
  prediction.states = double(figures.model_state_peak_bytes.max) / capacity;
  prediction.seconds = 0;
  if (table.measurand != Measurand::step) {
    read_collectives(result, row, table.measurand, prediction);
    return prediction;
  }
  prediction.seconds = step;
  if (micro_batches <= settled) return prediction;
  scenario.knobs.accumulation = settled - 1;
  const double before = step_seconds(scenario, run_of(scenario, row));
  prediction.seconds = before + (micro_batches - (settled - 1)) * (step - before);
  return prediction;
}

double run_whole(const MeasurementTable& table, const MeasuredRow& row, const std::vector<std::string>& more,
                 const Registry& registry) {
  const Scenario scenario = scenario_of(table, row, more, registry);
  return step_seconds(scenario, run_of(scenario, row));
}

}  // namespace shardsim
