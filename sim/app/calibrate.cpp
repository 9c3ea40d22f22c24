// Calibrate: the constants as unknowns in which a step's time is close to linear, and what is refused.
#include "app/calibrate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "app/fields.h"
#include "app/least_errors.h"
#include "app/prediction.h"
#include "core/error.h"
#include "cost/collective.h"

namespace shardsim {
namespace {

constexpr Constant constants[] = {Constant::gemm_efficiency, Constant::attention_flops, Constant::launch_seconds};
/// A GeForce beats the specification that its peak is taken from; nothing sustains less than a fiftieth.
constexpr double lowest_efficiency = 0.02, highest_efficiency = 1.3;
constexpr double reproduced = 0.005;   // what counts as reproducing a row
constexpr double contradiction = 0.2;  // between the efficiencies that rows need alone

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, std::abs(share) < 1e4 ? "%+.1f %%" : "%+.3g %%", 100 * share);
  return text;
}

/// In the variables of least_errors, times are close to linear: 1 / efficiency, 1 / speed, seconds. They begin on the slow side,
/// from where Newton's steps do not overshoot: a step's time is a convex function of what its parts take.
Unknown unknown_of(Constant constant) {
  switch (constant) {
    case Constant::gemm_efficiency:
      return {1 / 0.4, 1 / highest_efficiency, 1 / lowest_efficiency, 0.05};
    case Constant::attention_flops:
      return {1, 0.1, 20, 0.05};  // of the speed that the GPU has by default
    case Constant::launch_seconds:
      break;
  }
  return {50e-6, 0, 2e-3, 5e-6};
}

std::string origin(const MeasurementTable& table, const MeasuredRow& row) {
  return table.file.string() + ": row " + std::to_string(row.number);
}

class Solver {
 public:
  Solver(const MeasurementTable& table, const std::vector<int>& rows, const std::vector<std::string>& more,
         const Registry& registry)
      : table_(table), more_(more), registry_(registry) {
    for (const int number : rows) rows_.push_back(&table.row(number));
    const Prediction first = predict(table, *rows_[0], more, registry);
    attention_64_ = first.attention_64, attention_128_ = first.attention_128;
  }
  bool has_attention() const { return attention_64_ > 0 || attention_128_ > 0; }

  Calibration solve(const std::vector<Constant>& fit) const { return solve(fit, rows_); }
  /// From one row alone.
  Calibration efficiency(const MeasuredRow* row) const {
    Calibration alone = solve({Constant::gemm_efficiency}, {row});
    refuse_unreachable(*row, alone);
    return alone;
  }
  const std::vector<const MeasuredRow*>& rows() const { return rows_; }

 private:
  Calibration solve(const std::vector<Constant>& fit, const std::vector<const MeasuredRow*>& rows) const {
    std::vector<double> measured;
    std::vector<Unknown> unknowns;
    measured.reserve(rows.size()), unknowns.reserve(fit.size());
    for (const MeasuredRow* row : rows) measured.push_back(row->seconds);
    for (const Constant constant : fit) unknowns.push_back(unknown_of(constant));
    const Fit found = least_errors(
        [&](const std::vector<double>& values) {
          std::vector<std::string> overrides = more_;
          for (const std::string& each : settings(fit, values).overrides()) overrides.push_back(each);
          std::vector<double> seconds;
          seconds.reserve(rows.size());
          for (const MeasuredRow* row : rows) seconds.push_back(predict(table_, *row, overrides, registry_).seconds);
          return seconds;
        },
        measured, unknowns);
    Calibration calibration = settings(fit, found.values);
    calibration.errors = found.errors;
    return calibration;
  }

  Calibration settings(const std::vector<Constant>& fit, const std::vector<double>& values) const {
    Calibration calibration;
    for (std::size_t i = 0; i < fit.size(); ++i) {
      if (fit[i] == Constant::gemm_efficiency) calibration.values.push_back({"gemm_efficiency", price_text(1 / values[i])});
      if (fit[i] == Constant::launch_seconds) calibration.values.push_back({"launch_seconds", price_text(1e6 * values[i]) + "us"});
      if (fit[i] != Constant::attention_flops) continue;
      if (attention_64_ > 0)
        calibration.values.push_back({"attention_64_flops", price_text(attention_64_ / values[i] / 1e12) + "Tf"});
      if (attention_128_ > 0)
        calibration.values.push_back({"attention_128_flops", price_text(attention_128_ / values[i] / 1e12) + "Tf"});
    }
    return calibration;
  }

  void refuse_unreachable(const MeasuredRow& row, const Calibration& alone) const {
    const double error = alone.errors[0];
    if (std::abs(error) <= reproduced) return;
    const bool too_fast = error > 0;
    throw ScenarioError(origin(table_, row) + ": no gemm_efficiency from " + price_text(lowest_efficiency) + " to " +
                        price_text(highest_efficiency) + " reproduces " + price_text(row.seconds) + " s; with " +
                        alone.values[0].text + " the prediction is " + percent(error) +
                        (too_fast ? " (the row is faster than the machine allows" : " (the row is slower than that explains") +
                        "); check its GPU, its sizes and its time");
  }

  const MeasurementTable& table_;
  const std::vector<std::string>& more_;
  const Registry& registry_;
  std::vector<const MeasuredRow*> rows_;
  double attention_64_ = 0, attention_128_ = 0;
};

std::string value_of(const MeasuredRow& row, const std::string& key) {
  for (const std::string& each : row.overrides)
    if (each.starts_with(key + "=")) return each.substr(key.size() + 1);
  return {};
}

void check_rows(const MeasurementTable& table, const std::vector<int>& rows, std::size_t fitted) {
  if (rows.empty())
    throw ScenarioError(table.file.string() +
                        ": no row to calibrate from; name one with --row, or mark it in the column calibrates");
  if (rows.size() < fitted)
    throw ScenarioError(table.file.string() + ": " + std::to_string(fitted) + " constants cannot follow from " +
                        std::to_string(rows.size()) + (rows.size() == 1 ? " row" : " rows") + "; name as many rows with --row");
  const MeasuredRow& first = table.row(rows[0]);
  for (const int number : rows) {
    const MeasuredRow& row = table.row(number);
    if (std::count(rows.begin(), rows.end(), number) > 1)
      throw ScenarioError(origin(table, row) + ": is named twice; name two different rows");
    for (const char* key : {"prices.gpu", "platform.gpu", "platform"})
      if (value_of(row, key) != value_of(first, key))
        throw ScenarioError(origin(table, row) + ": is of another GPU (" + key + " " + value_of(row, key) + ") than row " +
                            std::to_string(first.number) + " (" + value_of(first, key) + "); calibrate each alone");
  }
}

/// Rows that each alone need quite different efficiencies describe different machines, or one of them is wrong.
void check_agreement(const MeasurementTable& table, const Solver& solver) {
  const MeasuredRow *least = nullptr, *most = nullptr;
  double low = 0, high = 0;
  for (const MeasuredRow* row : solver.rows()) {
    const double e = std::stod(solver.efficiency(row).values[0].text);
    if (!least || e < low) low = e, least = row;
    if (!most || e > high) high = e, most = row;
  }
  if (high <= low * (1 + contradiction)) return;
  throw ScenarioError(
      table.file.string() + ": rows " + std::to_string(least->number) + " and " + std::to_string(most->number) +
      " contradict each other: alone they need a gemm_efficiency of " + price_text(low) + " and " + price_text(high) +
      ", which differ by more than 20 %; leave one out, or fit what tells them apart (attention_flops, launch_seconds)");
}

}  // namespace

std::string price_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

const char* name_of(Constant constant) {
  constexpr const char* names[] = {"gemm_efficiency", "attention_flops", "launch_seconds"};
  return names[int(constant)];
}

std::optional<Constant> find_constant(const std::string& name) {
  for (const Constant each : constants)
    if (name == name_of(each)) return each;
  return {};
}

std::vector<std::string> constant_names() {
  std::vector<std::string> names;
  for (const Constant each : constants) names.push_back(name_of(each));
  return names;
}

Constant constant_of(const std::string& name) {
  if (const std::optional<Constant> found = find_constant(name)) return *found;
  throw ScenarioError("fit: there is no constant '" + name + "' to solve for; known ones: " + joined(constant_names()));
}

std::vector<int> marked_rows(const MeasurementTable& table, const std::vector<Constant>& fit) {
  std::vector<int> rows;
  for (const MeasuredRow& row : table.rows) {
    const std::optional<Constant> only = find_constant(row.calibrates);
    if (row.calibrates == "yes" || (only && std::count(fit.begin(), fit.end(), *only) > 0)) rows.push_back(row.number);
  }
  return rows;
}

std::vector<std::string> Calibration::overrides() const {
  std::vector<std::string> all;
  for (const Value& value : values) {
    const bool is_price = value.key.find('.') == std::string::npos;
    all.push_back((is_price ? "prices.calibrated." : "") + value.key + "=" + value.text);
  }
  return all;
}

Calibration calibrate(const MeasurementTable& table, const std::vector<int>& rows, const std::vector<Constant>& fit,
                      const std::vector<std::string>& more, const Registry& registry) {
  check_rows(table, rows, fit.size());
  if (table.measurand != Measurand::step)
    throw ScenarioError(table.file.string() +
                        ": holds times of collectives, from which no price of a GPU follows; use --collectives");
  const Solver solver(table, rows, more, registry);
  if (std::count(fit.begin(), fit.end(), Constant::attention_flops) > 0 && !solver.has_attention())
    throw ScenarioError(origin(table, table.row(rows[0])) +
                        ": attention_flops: this GPU's attention runs as matrix products; set prices.attention");
  const bool only_efficiency = fit == std::vector{Constant::gemm_efficiency};
  if (only_efficiency && rows.size() == 1) return solver.efficiency(&table.row(rows[0]));
  if (only_efficiency) check_agreement(table, solver);
  Calibration calibration = solver.solve(fit);
  double worst = 0;
  for (const double error : calibration.errors) worst = std::max(worst, std::abs(error));
  if (rows.size() == fit.size() && worst > reproduced) {
    std::string found;
    for (const Calibration::Value& value : calibration.values) found += (found.empty() ? "" : ", ") + value.key + " " + value.text;
    throw ScenarioError(table.file.string() +
                        ": the rows contradict each other: no values in range reproduce them all to 0.5 %; the best (" + found +
                        ") leave an error of " + percent(worst) + "; check the rows, or fit other constants");
  }
  return calibration;
}

Calibration calibrate_collective(const MeasurementTable& table, const std::vector<int>& rows, const std::vector<std::string>& more,
                                 const Registry& registry) {
  check_rows(table, rows, 2);
  constexpr Verb verbs[] = {Verb::all_reduce, Verb::all_reduce, Verb::reduce_scatter, Verb::all_gather};
  if (table.measurand == Measurand::step) throw ScenarioError(table.file.string() + ": holds times of steps, not of collectives");
  std::vector<cost::CollectiveRow> measured;
  for (const int number : rows) {
    const MeasuredRow& row = table.row(number);
    const Prediction prediction = predict(table, row, more, registry);
    measured.push_back({verbs[int(table.measurand)], prediction.world, double(prediction.bytes), row.seconds});
  }
  Calibration calibration;
  try {
    const cost::AlphaBus found = cost::fit_alpha_bus(measured);
    const std::string verb = name_of(verbs[int(table.measurand)]);
    calibration.values = {{"collectives.alpha." + verb, price_text(1e6 * found.alpha) + "us"},
                          {"collectives.bus." + verb, price_text(found.bus / 1e9) + "GBps"}};
    for (const cost::CollectiveRow& row : measured)
      calibration.errors.push_back(found.seconds(row.verb, row.ranks, row.bytes) / row.seconds - 1);
  } catch (const std::invalid_argument& error) {
    throw ScenarioError(origin(table, table.row(rows[0])) + " and those after it: " + error.what());
  }
  return calibration;
}

}  // namespace shardsim
