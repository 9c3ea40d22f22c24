// Metrics: sums, unions of intervals and hashes over a scheme's result.
#include "app/metrics.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "app/expectations.h"
#include "app/scenario_model.h"
#include "core/formulas.h"
#include "cost/facts.h"
#include "models/language.h"
#include "numerics/digest.h"

namespace shardsim {
namespace {

std::int64_t total(const Composition& parts) {
  std::int64_t sum = 0;
  for (const Part& part : parts) sum += part.bytes;
  return sum;
}

std::vector<double> mean_losses(const std::vector<RankResult>& ranks) {
  std::size_t steps = ranks.empty() ? 0 : ranks.front().losses.size();
  for (const RankResult& rank : ranks) steps = std::min(steps, rank.losses.size());
  std::vector<double> means(steps, 0.0);
  for (const RankResult& rank : ranks)
    for (std::size_t step = 0; step < steps; ++step) means[step] += double(rank.losses[step]);
  for (double& mean : means) mean /= double(ranks.size());
  return means;
}

/// What is known of a language model's step: its tokens and operations, the entropy of the language that is learned, and how far a
/// mean loss may lie from it by chance.
void measure_language(const Scenario& scenario, formats::Figures& f) {
  const TransformerChoice& choice = *scenario.transformer;
  f.tokens_per_row = choice.sequence;
  const double of_rank = double(scenario.micro_batch) * scenario.knobs.accumulation * double(choice.sequence);
  f.model_flops = model_flops(choice.shape, of_rank, double(choice.sequence));
  if (f.losses.empty() || !scenario.data.text.empty()) return;
  const int successors = scenario.data.successors;
  const Language language(successors, successors, 0);  // neither vocabulary nor seed changes its entropy
  const double steps = double(std::max<std::size_t>(1, f.losses.size() / 10));
  const double tokens =
      steps * scenario.knobs.accumulation * double(scenario.micro_batch) * f.world * double(real_sequence(scenario));
  f.entropy = language.entropy();
  f.loss_deviation = language.deviation() / std::sqrt(tokens);
}

/// The closed forms of the scheme's flags, in this scenario.
void put_closed_forms(const Knobs& knobs, const SchemeResult& result, formats::Figures& f) {
  if (!result.has_closed_forms) return;
  f.formula_traffic_units = formulas::traffic_units(result.shard, knobs.precision, knobs.accumulation, result.world, result.shards);
  f.formula_resident = formulas::resident_bytes(result.shard, knobs.precision, result.shards, knobs.grads_resident);
  f.formula_model_state_peak = formulas::table_peak_bytes(result.shard, knobs.precision, result.shards, knobs.grads_resident);
}

/// A rank's share of its node's: the simulated machine's, or what the scenario says where the machine is the one at hand.
std::int64_t host_memory_of(const Scenario& scenario, const Gpu& gpu) {
  std::int64_t bytes = gpu.host_memory;
  for (const cost::Prices::Value& each : scenario.prices.values)
    if (scenario.backend != "simgrid" && cost::facts()[each.fact].name == std::string("host_memory"))
      bytes = std::int64_t(each.value);
  return bytes;
}

/// f(span) for each collective of a rank's steady steps that moves data.
template <class F>
void each_steady(const SchemeResult& result, const RankResult& rank, F f) {
  for (const Span& span : rank.spans)
    if (span.op == Span::collective && !span.control && span.begin >= rank.host_step_begin[std::size_t(result.first_steady)])
      f(span);
}

/// What lies between two steps (a real device keeps its books there) is no part of either, unless they overlap.
double seconds_of_steady_steps(const Scenario& scenario, const SchemeResult& result, const RankResult& rank) {
  if (!scenario.knobs.step_barrier) return rank.step_end.back() - rank.step_begin.front();
  double sum = 0;
  for (std::size_t step = std::size_t(result.first_steady); step < rank.step_end.size(); ++step)
    sum += rank.step_end[step] - rank.step_begin[step];
  return sum;
}

}  // namespace

std::uint64_t theta_hash(const std::vector<float>& theta) {
  numerics::Digest digest;
  for (float value : theta) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, 4);
    for (int byte = 0; byte < 4; ++byte) digest.take(std::uint8_t(bits >> 8 * byte));
  }
  return digest.value();
}

double covered(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  double sum = 0, end = -INFINITY;
  for (const Interval& interval : intervals) {
    if (interval.end <= end) continue;
    sum += interval.end - std::max(interval.begin, end);
    end = interval.end;
  }
  return sum;
}

RankTimes times_of(const RankResult& rank, int first_step) {
  if (rank.step_end.empty()) return {};
  const double first = rank.step_begin[std::size_t(first_step)], last = rank.step_end.back();
  const double steps = double(rank.step_end.size()) - first_step;
  std::vector<Interval> ops, collectives, all;
  for (const Span& span : rank.spans) {
    const Interval inside{std::max(span.begin, first), std::min(span.end, last)};
    if (inside.end <= inside.begin) continue;
    (span.op == Span::collective ? collectives : ops).push_back(inside);
    all.push_back(inside);
  }
  const double compute = covered(std::move(ops));
  // Covered by anything, less covered by ops: covered by collectives alone.
  const double exposed = std::max(0.0, covered(std::move(all)) - compute);
  const double communication = covered(std::move(collectives)), hidden = communication - exposed;
  return {compute / steps, exposed / steps, hidden > 1e-12 * communication ? hidden / steps : 0};  // less is rounding
}

std::vector<Movement> movements(const Scenario& scenario, const SchemeResult& result) {
  std::vector<Movement> moved;
  if (result.steps == 0 || result.ranks.empty() || result.parameters == 0) return moved;
  const auto recorded =
      std::find_if(result.ranks.begin(), result.ranks.end(), [](const RankResult& rank) { return !rank.spans.empty(); });
  if (recorded == result.ranks.end()) return moved;
  const double whole =
      double(result.parameters) * double(bytes_of(scenario.knobs.precision.param)) * (result.steps - result.first_steady);
  for (const Verb verb : collective_verbs) {
    double bytes = 0;
    each_steady(result, *recorded, [&](const Span& span) { bytes += span.verb == verb ? double(span.size) : 0; });
    if (bytes > 0) moved.push_back({verb, bytes / whole});
  }
  return moved;
}

std::string repeated_gathers(const Scenario& scenario, const SchemeResult& result) {
  std::map<int, int> times;  // by unit, of the first recorded rank
  for (const RankResult& rank : result.ranks) {
    each_steady(result, rank, [&](const Span& span) {
      if (span.verb == Verb::all_gather) ++times[span.unit];
    });
    if (!rank.spans.empty()) break;
  }
  int least = std::numeric_limits<int>::max();
  for (const auto& [unit, count] : times) least = std::min(least, count);
  const auto per_step = [&](int count) {
    const int whole = count / std::max(1, result.steps - result.first_steady);
    return whole == 1 ? std::string("once") : whole == 2 ? std::string("twice") : std::to_string(whole) + " times";
  };
  std::string text;
  for (const auto& [unit, count] : times)
    if (count > least)
      text += (text.empty() ? "" : ", ") + ("unit " + std::to_string(unit)) + " is gathered " + per_step(count) + " a step";
  if (text.empty()) return text;
  const bool is_tied = scenario.transformer && scenario.transformer->shape.tied;
  return text + ", every other " + per_step(least) + (is_tied ? ": a tied embedding has two turns in each pass" : "");
}

formats::Figures measure(const Scenario& scenario, const SchemeResult& result) {
  formats::Figures f;
  f.scheme = result.scheme, f.backend = result.backend;
  f.world = result.world, f.steps = result.steps, f.first_steady = result.first_steady, f.interrupted = result.interrupted;
  f.units = int(result.unit_parameters.size());
  f.parameters = result.parameters, f.padding = result.padding;

  f.losses = mean_losses(result.ranks);
  if (scenario.transformer) measure_language(scenario, f);
  for (std::size_t step = 0; step < f.losses.size() && !f.diverged_step; ++step)
    if (!std::isfinite(f.losses[step])) f.diverged_step = int(step);
  if (!result.theta.empty()) f.theta_hash = theta_hash(result.theta);

  const double steps = std::max(1, result.steps - result.first_steady);
  for (const RankResult& rank : result.ranks) {
    const int r = rank.rank;
    if (!rank.stands_for.empty()) f.rank_classes.push_back({rank.rank, rank.ranks, rank.stands_for});
    if (!rank.step_end.empty()) {
      f.step_seconds.add(r, seconds_of_steady_steps(scenario, result, rank) / steps);
      f.first_step_seconds = std::max(f.first_step_seconds, rank.step_end.front() - rank.step_begin.front());
      f.last_step_seconds = std::max(f.last_step_seconds, rank.step_end.back() - rank.step_begin.back());
    }
    if (rank.is_recorded()) {
      const RankTimes times = times_of(rank, result.first_steady);
      f.compute_seconds.add(r, times.compute);
      f.exposed_comm_seconds.add(r, times.exposed);
      f.hidden_comm_seconds.add(r, times.hidden);
    }
    f.bytes_sent.add(r, double(rank.traffic_bytes - rank.unsteady.traffic_bytes) / steps);
    f.control_bytes.add(r, double(rank.control_bytes - rank.unsteady.control_bytes) / steps);
    f.resident_bytes.add(r, total(rank.resident));
    f.model_state_peak_bytes.add(r, rank.model_state_peak.bytes);
    f.peak_bytes.add(r, rank.peak.bytes);
    f.host_resident_bytes.add(r, total(rank.host_resident));
    f.host_peak_bytes.add(r, rank.host_peak.bytes);
    f.host_link_bytes.add(r, double(rank.crossed.bytes() - rank.unsteady.crossed.bytes()) / steps);
    f.host_to_device_bytes.add(r, double(rank.crossed.to_device - rank.unsteady.crossed.to_device) / steps);
    const AllocatorBooks& books = rank.allocator;
    if (books.emulated) {
      f.requested_peak_bytes.add(r, books.requested);
      f.allocated_peak_bytes.add(r, books.allocated);
      f.allocated_resident_bytes.add(r, books.allocated_now);
      f.reserved_bytes.add(r, books.reserved);
    }
    if (books.has_outside) f.outside_bytes.add(r, books.outside);
    if (r == 0 || books.reserved + books.outside > f.allocator.reserved + f.allocator.outside) f.allocator = books;
  }
  if (!result.ranks.empty()) {
    f.resident = result.of(f.resident_bytes.rank).resident;
    f.model_state_peak = result.of(f.model_state_peak_bytes.rank).model_state_peak;
    f.peak = result.of(f.peak_bytes.rank).peak;
    f.host_peak = result.of(f.host_peak_bytes.rank).host_peak;
  }
  if (scenario.single_gpu_seconds > 0 && f.step_seconds.max > 0)
    f.over_single_gpu_seconds = f.last_step_seconds - scenario.single_gpu_seconds;
  if (result.world > 1) {
    const double n = result.world;
    f.traffic_units =
        f.bytes_sent.max / ((n - 1) / n * double(result.parameters) * double(bytes_of(scenario.knobs.precision.param)));
  }
  put_closed_forms(scenario.knobs, result, f);
  const double rows = double(result.world) * double(scenario.micro_batch) * scenario.knobs.accumulation;
  if (f.step_seconds.max > 0) f.rows_per_second = rows / f.step_seconds.max;
  f.peak_flops = scenario.knobs.precision.param == Dtype::fp32 ? result.gpu.fp32_flops : result.gpu.bf16_flops;
  f.gpu = result.gpu.name, f.gpu_memory = result.gpu.memory_bytes, f.host_memory = host_memory_of(scenario, result.gpu);
  if (const auto told = scenario.measured.find(result.scheme); told != scenario.measured.end())
    for (const Expectation& each : told->second) f.measured.push_back({each.key, figure_of(f, each.key), each.value});
  return f;
}

}  // namespace shardsim
