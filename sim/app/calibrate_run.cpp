// Calibrate from a run: its launches in order, beside those of the simulator.
#include "app/calibrate_run.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "app/least_errors.h"
#include "app/run.h"
#include "app/run_folder.h"
#include "app/scenario.h"
#include "app/scenario_schemes.h"
#include "core/error.h"
#include "core/op.h"
#include "cost/collective.h"
#include "formats/summary.h"
#include "formats/trace.h"

namespace shardsim {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct Launch {
  std::string name;  // of the op; of a fill or a copy empty, whose names in a trace are CUDA's
  double seconds;
};

/// The figures of the folder's first scheme, or of the wanted one. What was simulated has this program's own prices: nothing can be
/// learned from it.
Json measured_figures(const fs::path& folder, const std::string& wanted) {
  const Json summary = read_summary(folder);
  std::string known;
  for (const Json& figures : summary["results"]) {
    const std::string name = figures["scheme"];
    known += (known.empty() ? "" : ", ") + name;
    if (!wanted.empty() && wanted != name) continue;
    if (figures["backend"] != "simgrid") return figures;
    throw ScenarioError(folder.string() + ": " + name +
                        " was simulated, so its times are this program's own prices; calibrate from a run that was measured, with "
                        "backend: cuda or threads");
  }
  throw ScenarioError("--scheme " + wanted + ": " + folder.string() + " has no results of it; it has " + known);
}

Verb collective_in(const CsvRow& row, std::size_t column) {
  for (const Verb verb : collective_verbs)
    if (row.text(column) == name_of(verb)) return verb;
  row.refuse("there is no collective " + quoted(row.text(column)));
}

/// "forward layer0: matmul" -> "matmul"
std::string op_in(const std::string& name) {
  const std::size_t colon = name.rfind(": ");
  return colon == std::string::npos ? name : name.substr(colon + 2);
}

/// All launches on the compute stream of the trace's lowest rank, in order.
std::vector<Launch> measured_launches(const fs::path& file) {
  const std::string text = text_of_file(file);
  if (text.empty())
    throw ScenarioError(file.string() +
                        ": is not there, or empty; calibrate --from needs one trace: run without --gzip and --trace-per-rank");
  const Json trace = Json::parse(text, nullptr, false);
  int lowest = -1;
  std::vector<std::pair<double, Launch>> launches;
  try {
    for (const Json& event : trace.at("traceEvents")) {
      const std::string category = event.value("cat", "");
      if (category != "kernel" && category != "gpu_memset" && category != "gpu_memcpy") continue;
      const int rank = event.at("pid");
      if (lowest < 0 || rank < lowest) lowest = rank, launches.clear();
      if (rank != lowest || event.at("tid") != formats::stream_number(Lane::compute) ||
          event.at("args").contains("Collective name"))
        continue;
      launches.push_back({event.at("ts").get<double>(),
                          {category == "kernel" ? op_in(event.at("name")) : "", event.at("dur").get<double>() / 1e6}});
    }
  } catch (const Json::exception&) {
    throw ScenarioError(file.string() + ": is no trace of this program; run it again");
  }
  std::stable_sort(launches.begin(), launches.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Launch> in_order;
  in_order.reserve(launches.size());
  for (auto& [at, launch] : launches) in_order.push_back(std::move(launch));
  return in_order;
}

/// The launches of one step on the compute stream, as the simulator prices them.
struct Step {
  std::vector<Launch> launches;
  Gpu gpu;
  std::vector<std::string> changed_files;
};
Step simulated_step(const fs::path& file, const std::string& scheme, const std::vector<std::string>& overrides,
                    const Registry& registry) {
  std::vector<std::string> all = overrides;
  for (const char* ours : {"numerics=off", "steps=2", "backend=simgrid", "record.ranks=[0]"}) all.push_back(ours);
  const Scenario scenario = read_scenario(file, all, registry);
  const SchemeChoice* choice = find_choice(scenario.schemes, scheme);
  if (!choice) throw ScenarioError(file.string() + ": does not run " + scheme + ", which was measured");
  const SchemeResult result = run_scheme(scenario, TrainingSet(scenario), *choice);
  Step step{{}, result.gpu, scenario.changed_files};
  const RankResult& rank = result.ranks[0];
  for (const Span& span : rank.spans)
    if (span.lane == Lane::compute && span.op != Span::collective && span.begin >= rank.step_begin.back())
      step.launches.push_back({op_name(span.op), span.end - span.begin});
  return step;
}

/// Launch by launch, the mean over the steady ones of the measured steps.
std::vector<Launch> mean_step(const std::vector<Launch>& measured, const std::vector<Launch>& step, const fs::path& file) {
  const std::size_t per_step = step.size(), steps = measured.size() / std::max<std::size_t>(1, per_step);
  const auto differs = [&](const std::string& what) {
    throw ScenarioError(file.string() + ": " + what + "; calibrate from a run of the same scenario and of two steps or more");
  };
  if (per_step == 0 || steps < 2)
    differs("has " + std::to_string(measured.size()) + " launches on the compute stream, and the scenario " +
            std::to_string(per_step) + " per step");
  std::vector<Launch> mean(per_step);
  const std::size_t steady = steps - std::size_t(formats::first_steady(int(steps)));
  for (std::size_t back = 0; back < steady; ++back)
    for (std::size_t i = 0; i < per_step; ++i) {
      const Launch& launch = measured[measured.size() - (back + 1) * per_step + i];
      if (!launch.name.empty() && launch.name != step[i].name)
        differs("launch " + std::to_string(i + 1) + " of a step is " + launch.name + ", and the scenario has " + step[i].name);
      mean[i].name = step[i].name, mean[i].seconds += launch.seconds / double(steady);
    }
  return mean;
}

/// Launches of one name and price are one kind: for each launch, the place of its kind.
std::vector<std::size_t> kinds_of(const std::vector<Launch>& step, std::size_t& count) {
  std::map<std::pair<std::string, long long>, std::size_t> kinds;
  std::vector<std::size_t> of;
  for (const Launch& launch : step)
    of.push_back(kinds.try_emplace({launch.name, std::llround(launch.seconds * 1e12)}, kinds.size()).first->second);
  count = kinds.size();
  return of;
}

/// Unknowns in which times are close to linear, and how a value of one is written as a price.
struct Price {
  const char* key;
  Unknown unknown;
  std::string (*text)(double value, const Gpu&);
};
constexpr double slowest = 0.001;  // of a peak: what a run on something that is no GPU may need
const Price gemm_price{"gemm_efficiency", {2, 1 / 1.3, 1 / slowest, 0.05}, [](double x, const Gpu&) { return price_text(1 / x); }};
const Price memory_price{
    "memory_efficiency", {1.3, 1 / 1.0, 1 / slowest, 0.05}, [](double x, const Gpu&) { return price_text(1 / x); }};
const Price kernel_price{"kernel_seconds", {2e-6, 0, 1e-3, 5e-7}, [](double x, const Gpu&) { return price_text(1e6 * x) + "us"; }};
const Price attention_64_price{"attention_64_flops", {1, 0.1, 20, 0.05}, [](double x, const Gpu& gpu) {
                                 return price_text(gpu.attention_64.flops / x / 1e12) + "Tf";
                               }};
const Price attention_128_price{"attention_128_flops", {1, 0.1, 20, 0.05}, [](double x, const Gpu& gpu) {
                                  return price_text(gpu.attention_128.flops / x / 1e12) + "Tf";
                                }};

}  // namespace

RunCalibration calibrate_from_run(const fs::path& folder, const fs::path& scenario, const std::string& wanted,
                                  const std::vector<std::string>& overrides, const Registry& registry) {
  const std::string scheme = measured_figures(folder, wanted)["scheme"];
  const fs::path file = scenario.empty() ? folder / "scenario.yaml" : scenario, trace = folder / scheme / "trace.json";
  const Step base = simulated_step(file, scheme, overrides, registry);
  const std::vector<Launch> mean = mean_step(measured_launches(trace), base.launches, trace);
  std::size_t count = 0;
  const std::vector<std::size_t> kinds = kinds_of(base.launches, count);
  const auto sums = [&](const std::vector<Launch>& launches) {
    std::vector<double> seconds(count, 0.0);
    for (std::size_t i = 0; i < kinds.size(); ++i) seconds[kinds[i]] += launches[i].seconds;
    return seconds;
  };
  const std::vector<double> measured = sums(mean), before = sums(base.launches);
  double all = 0;
  for (const double seconds : measured) all += seconds;
  std::vector<std::size_t> counted;
  for (std::size_t kind = 0; kind < count; ++kind)
    if (measured[kind] >= 0.01 * all && before[kind] > 0) counted.push_back(kind);
  const auto of_counted = [&](const std::vector<double>& seconds) {
    std::vector<double> some;
    for (const std::size_t kind : counted) some.push_back(seconds[kind]);
    return some;
  };
  const auto with = [&](const std::vector<const Price*>& prices, const std::vector<double>& values) {
    Calibration found;
    for (std::size_t i = 0; i < prices.size(); ++i) found.values.push_back({prices[i]->key, prices[i]->text(values[i], base.gpu)});
    return found;
  };
  const auto step_with = [&](const Calibration& found) {
    std::vector<std::string> words = overrides;
    for (const std::string& each : found.overrides()) words.push_back(each);
    return sums(simulated_step(file, scheme, words, registry).launches);
  };

  // A price that moves nothing of what is counted cannot be found.
  std::vector<const Price*> prices;
  for (const Price* price : {&gemm_price, &memory_price, &attention_64_price, &attention_128_price, &kernel_price}) {
    if ((price == &attention_64_price && base.gpu.attention_64.flops == 0) ||
        (price == &attention_128_price && base.gpu.attention_128.flops == 0))
      continue;
    const double at = price->unknown.start;
    if (prices.size() < counted.size() &&
        of_counted(step_with(with({price}, {at}))) != of_counted(step_with(with({price}, {at + price->unknown.step}))))
      prices.push_back(price);
  }
  if (prices.empty()) throw ScenarioError(trace.string() + ": no operation takes time that depends on a price");
  std::vector<Unknown> unknowns;
  for (const Price* price : prices) unknowns.push_back(price->unknown);
  const Fit fit = least_errors([&](const std::vector<double>& values) { return of_counted(step_with(with(prices, values))); },
                               of_counted(measured), unknowns);

  RunCalibration calibration{with(prices, fit.values), {}, base.changed_files};
  calibration.prices.errors = fit.errors;
  const std::vector<double> after = step_with(calibration.prices);
  calibration.operations.resize(count);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    MeasuredOperation& operation = calibration.operations[kinds[i]];
    operation.name = mean[i].name, ++operation.count;
  }
  for (std::size_t kind = 0; kind < count; ++kind) {
    MeasuredOperation& operation = calibration.operations[kind];
    operation.measured = measured[kind] / operation.count, operation.before = before[kind] / operation.count;
    operation.after = after[kind] / operation.count;
  }
  std::stable_sort(
      calibration.operations.begin(), calibration.operations.end(),
      [](const MeasuredOperation& a, const MeasuredOperation& b) { return a.count * a.measured > b.count * b.measured; });
  return calibration;
}

Calibration calibrate_collectives_from_run(const fs::path& folder, const std::string& wanted) {
  const Json figures = measured_figures(folder, wanted);
  const int steady = figures["first_steady_step"];
  const fs::path file = folder / figures["scheme"].get<std::string>() / "collectives.csv";
  // The k-th collective of a group is one collective, on whichever rank.
  std::map<std::tuple<std::int64_t, std::string, std::string>, int> issued;  // by rank, group and stream
  struct One {
    Verb verb;
    int ranks;
    double bytes, seconds;
  };
  std::map<std::tuple<std::string, std::string, int>, One> all;
  for_each_row(
      file,
      {"rank", "stream", "collective", "group", "group_size", "buffer_bytes", "begin_seconds", "end_seconds", "payload", "step"},
      [&](const CsvRow& row) {
        const int at = issued[{row.whole(0), row.text(3), row.text(1)}]++;
        if (row.text(8) != "data" || row.whole(4) < 2) return;
        const Verb verb = collective_in(row, 2);
        if (row.whole(9) < steady) return;
        const double seconds = row.number(7) - row.number(6);
        One& one =
            all.try_emplace({row.text(3), row.text(1), at}, One{verb, int(row.whole(4)), row.number(5), seconds}).first->second;
        one.seconds = std::min(one.seconds, seconds);
      });
  // The mean of a size: single times scatter.
  std::map<Verb, std::map<std::pair<int, double>, std::pair<double, int>>> sizes;
  for (const auto& [key, one] : all) {
    auto& [seconds, times] = sizes[one.verb][{one.ranks, one.bytes}];
    seconds += one.seconds, ++times;
  }
  Calibration calibration;
  for (const auto& [collective, by_size] : sizes) {
    if (by_size.size() < 2) continue;
    const std::string verb = name_of(collective);
    std::vector<cost::CollectiveRow> rows;
    for (const auto& [size, sum] : by_size) rows.push_back({collective, size.first, size.second, sum.first / sum.second});
    try {
      const cost::AlphaBus found = cost::fit_alpha_bus(rows);
      calibration.values.push_back({"collectives.alpha." + verb, price_text(1e6 * found.alpha) + "us"});
      calibration.values.push_back({"collectives.bus." + verb, price_text(found.bus / 1e9) + "GBps"});
      for (const cost::CollectiveRow& row : rows)
        calibration.errors.push_back(found.seconds(row.verb, row.ranks, row.bytes) / row.seconds - 1);
    } catch (const std::invalid_argument& error) {
      throw ScenarioError(file.string() + ": " + verb + ": " + error.what());
    }
  }
  if (calibration.values.empty())
    throw ScenarioError(file.string() +
                        ": no collective of two sizes or more, from which latency and bandwidth could be told apart");
  return calibration;
}

std::string operations_text(const RunCalibration& calibration) {
  std::string text = "# operation, per step, measured each, priced before and after - 1\n";
  for (const MeasuredOperation& operation : calibration.operations) {
    char line[160];
    std::snprintf(line, sizeof line, "# %-22s %6d x %12.6g us %+8.1f %% %+8.1f %%\n", operation.name.c_str(), operation.count,
                  1e6 * operation.measured, 100 * (operation.before / operation.measured - 1),
                  100 * (operation.after / operation.measured - 1));
    text += line;
  }
  return text;
}

}  // namespace shardsim
