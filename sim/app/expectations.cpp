// Expectations: a figure by its key, and the comparison.
#include "app/expectations.h"

#include <cmath>

#include "app/table.h"

namespace shardsim {
namespace {

using formats::Figures;

std::string place(const Scenario& scenario, int line) {
  return line > 0 ? scenario.file.string() + ":" + std::to_string(line) : std::string("--set");
}

}  // namespace

double figure_of(const Figures& f, const std::string& key) {
  if (key == "traffic") return f.traffic_units;
  if (key == "resident_bytes_per_param") return f.per_parameter(double(f.resident_bytes.max));
  if (key == "model_state_peak_bytes_per_param") return f.per_parameter(double(f.model_state_peak_bytes.max));
  if (key == "bytes_sent_per_rank_per_step") return f.bytes_sent.max;
  if (key == "control_bytes_per_rank_per_step") return f.control_bytes.max;
  if (key == "resident_bytes") return double(f.resident_bytes.max);
  if (key == "model_state_peak_bytes") return double(f.model_state_peak_bytes.max);
  if (key == "peak_bytes") return double(f.peak_bytes.max);
  if (key == "host_resident_bytes") return double(f.host_resident_bytes.max);
  if (key == "host_peak_bytes") return double(f.host_peak_bytes.max);
  if (key == "host_link_bytes_per_rank_per_step") return f.host_link_bytes.max;
  if (key == "reserved_bytes") return double(f.allocator.emulated ? f.reserved_bytes.max : f.peak_bytes.max);
  if (key == "allocated_peak_bytes") return double(f.allocator.emulated ? f.allocated_peak_bytes.max : f.peak_bytes.max);
  if (key == "allocated_resident_bytes")
    return double(f.allocator.emulated ? f.allocated_resident_bytes.max : f.resident_bytes.max);
  if (key == "over_single_gpu_seconds") return f.over_single_gpu_seconds.value_or(f.step_seconds.max);
  if (key == "outside_bytes") return f.outside_bytes.empty() ? 0 : double(f.outside_bytes.max);
  if (key == "step_seconds") return f.step_seconds.max;
  if (key == "last_step_seconds") return f.last_step_seconds;
  if (key == "compute_seconds") return f.compute_seconds.max;
  if (key == "exposed_comm_seconds") return f.exposed_comm_seconds.max;
  if (key == "loss_first") return f.losses.empty() ? NAN : f.losses.front();
  if (key == "loss_last") return f.losses.empty() ? NAN : f.losses.back();
  if (key == "loss_last_tenth") return f.loss_last_tenth();
  if (key == "parameters") return double(f.parameters);
  return double(f.padding);
}

std::vector<std::string> missed_expectations(const Scenario& scenario, const std::vector<Figures>& all) {
  std::vector<std::string> misses;
  for (const Figures& figures : all) {
    const auto expected = scenario.expect.find(figures.scheme);
    if (expected == scenario.expect.end()) continue;
    for (const Expectation& e : expected->second) {
      const double found = figure_of(figures, e.key);
      // Ratios are rounded once or twice; anything beyond that is a difference.
      if (std::abs(found - e.value) <= std::abs(e.value) * (e.within > 0 ? e.within : 1e-12)) continue;
      const bool has_padding = figures.padding > 0 && (e.key == "traffic" || e.key.find("bytes") != std::string::npos);
      std::string text = place(scenario, e.line) + ": " + figures.scheme + "." + e.key + ": expected " + precise_text(e.value);
      if (e.within > 0) text += " within " + precise_text(e.within * 100) + "%";
      text += std::isnan(found) && figures.losses.empty() ? ", but there is no loss without numerics"
                                                          : ", found " + precise_text(found);
      if (has_padding) text += " (with padding of " + std::to_string(figures.padding) + " parameters)";
      misses.push_back(text);
    }
  }
  if (!scenario.expect_equal_theta) return misses;
  for (const Figures& figures : all) {
    if (!figures.theta_hash) {
      misses.push_back(scenario.file.string() + ": theta: expected equal, but there is no theta without numerics");
      break;
    }
    if (*figures.theta_hash != *all.front().theta_hash)
      misses.push_back(scenario.file.string() + ": theta: expected equal, but " + all.front().scheme + " has " +
                       formats::hash_text(*all.front().theta_hash) + " and " + figures.scheme + " has " +
                       formats::hash_text(*figures.theta_hash));
  }
  return misses;
}

}  // namespace shardsim
