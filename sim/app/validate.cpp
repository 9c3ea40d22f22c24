// Validate: calibrate where the protocol says so, predict, sum up.
#include "app/validate.h"

#include <algorithm>
#include <cstring>

#include "app/run.h"
#include "app/workers.h"
#include "core/error.h"

namespace shardsim {
namespace {

/// What a row is calibrated with: the name of its group, or of the whole table.
std::string pool_of(const MeasuredRow& row, Protocol::Per per) { return per == Protocol::Per::group ? row.group : ""; }

std::vector<std::string> overrides_of(const MeasuredRow& row, const Protocol& protocol) {
  std::vector<std::string> all = protocol.overrides;
  for (const auto& [group, overrides] : protocol.of_group)
    if (group == row.group) all.insert(all.end(), overrides.begin(), overrides.end());
  return all;
}

std::string packed(const Calibration& calibration) {
  std::string text;
  for (const Calibration::Value& value : calibration.values) text += value.key + "\n" + value.text + "\n";
  return text;
}
Calibration unpacked(const std::string& text) {
  Calibration calibration;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t key = text.find('\n', at), value = text.find('\n', key + 1);
    calibration.values.push_back({text.substr(at, key - at), text.substr(key + 1, value - key - 1)});
    at = value + 1;
  }
  return calibration;
}

struct Pool {
  std::string name;
  std::vector<int> marked;  // rows
  Calibration calibration;
};

/// The rows that count, by pool.
std::vector<Pool> pools_of(const MeasurementTable& table, const Protocol& protocol, const std::vector<int>& marked,
                           const std::vector<const MeasuredRow*>& counted) {
  std::vector<Pool> pools;
  for (const MeasuredRow* row : counted) {
    const std::string name = pool_of(*row, protocol.calibrate_per);
    if (std::any_of(pools.begin(), pools.end(), [&](const Pool& pool) { return pool.name == name; })) continue;
    pools.push_back({name, {}, {}});
    for (const int number : marked)
      if (pool_of(table.row(number), protocol.calibrate_per) == name) pools.back().marked.push_back(number);
    if (pools.back().marked.empty())
      throw ScenarioError(table.file.string() + ": no row" + (name.empty() ? "" : " of the group '" + name + "'") +
                          " is marked for calibrating; write yes into its column calibrates, or do not calibrate");
  }
  return pools;
}

std::string in_words(const Calibration& calibration) {
  std::string text;
  for (const Calibration::Value& value : calibration.values) {
    const std::string key = value.key.starts_with("collectives.") ? value.key.substr(12, value.key.rfind('.') - 12) : value.key;
    text += (text.empty() ? "" : ", ") + key + " " + value.text;
  }
  return text;
}

void sum_up(Validation& validation, const MeasurementTable& table, const Protocol& protocol, const std::vector<Pool>& pools) {
  std::vector<double> all, unflagged;
  for (const Validation::Row& row : validation.rows) {
    all.push_back(row.error);
    if (!row.prediction.is_host_bound() && !row.prediction.is_near_memory_limit()) unflagged.push_back(row.error);
  }
  validation.overall = summary_of(all), validation.unflagged = summary_of(unflagged);
  for (const std::string& name : table.groups()) {
    std::vector<double> errors;
    for (const Validation::Row& row : validation.rows)
      if (row.row->group == name) errors.push_back(row.error);
    if (errors.empty()) continue;
    validation.groups.push_back({name, summary_of(errors), {}});
    for (const Pool& pool : pools)
      if (pool.name == name || protocol.calibrate_per == Protocol::Per::table)
        validation.groups.back().constants = in_words(pool.calibration);
  }
}

}  // namespace

std::optional<Validation> validate(const MeasurementTable& table, const Protocol& protocol, const Registry& registry,
                                   const ValidationProgress& progress) {
  const bool calibrates = protocol.calibrate_per != Protocol::Per::nothing;
  std::vector<int> marked;
  if (calibrates) marked = marked_rows(table, protocol.fit);
  if (protocol.last < Protocol().last) table.row(protocol.last);  // refuses what the table does not have
  std::vector<const MeasuredRow*> counted;
  for (const MeasuredRow& row : table.rows)
    if (row.number >= protocol.first && row.number <= protocol.last && std::count(marked.begin(), marked.end(), row.number) == 0)
      counted.push_back(&row);
  if (counted.empty())
    throw ScenarioError(table.file.string() + ": no row is left to predict; check --rows and the column calibrates");

  std::vector<Pool> pools;
  if (calibrates) pools = pools_of(table, protocol, marked, counted);
  const int runs = int(pools.size() + counted.size());
  const auto calibrated = in_parallel(
      int(pools.size()),
      [&](int i) {
        const Pool& pool = pools[std::size_t(i)];
        const std::vector<std::string> overrides = overrides_of(table.row(pool.marked[0]), protocol);
        return packed(table.measurand == Measurand::step ? calibrate(table, pool.marked, protocol.fit, overrides, registry)
                                                         : calibrate_collective(table, pool.marked, overrides, registry));
      },
      [&](int done) {
        if (progress) progress(done, runs);
      });
  for (std::size_t i = 0; i < pools.size(); ++i) pools[i].calibration = unpacked(calibrated[i]);
  if (interrupted()) return {};

  static_assert(std::is_trivially_copyable_v<Prediction>);
  const auto predicted = in_parallel(
      int(counted.size()),
      [&](int i) {
        const MeasuredRow& row = *counted[std::size_t(i)];
        std::vector<std::string> overrides = overrides_of(row, protocol);
        for (const Pool& pool : pools)
          if (pool.name == pool_of(row, protocol.calibrate_per))
            for (const std::string& each : pool.calibration.overrides()) overrides.push_back(each);
        const Prediction prediction = predict(table, row, overrides, registry);
        return std::string(reinterpret_cast<const char*>(&prediction), sizeof prediction);
      },
      [&](int done) {
        if (progress) progress(int(pools.size()) + done, runs);
      });
  if (interrupted()) return {};

  Validation validation;
  validation.is_calibrated = calibrates, validation.measurand = table.measurand;
  for (std::size_t i = 0; i < counted.size(); ++i) {
    Prediction prediction;
    std::memcpy(&prediction, predicted[i].data(), sizeof prediction);
    validation.rows.push_back({counted[i], prediction, prediction.seconds / counted[i]->seconds - 1});
  }
  sum_up(validation, table, protocol, pools);
  return validation;
}

}  // namespace shardsim
