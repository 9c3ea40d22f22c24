// Agreement: the rows, read from the files of both folders.
#include "app/agreement.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "app/comparison.h"
#include "app/run_folder.h"
#include "app/table.h"
#include "core/error.h"
#include "formats/npy.h"
#include "formats/summary.h"

namespace shardsim {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// What one folder says about one scheme.
struct Side {
  Json figures;
  std::vector<double> losses;
  std::map<std::string, double> computing;  // seconds by verb, of the last step
  /// Counts and bytes are all of the run's: on real threads, on which side of a step's begin a gather lies is chance.
  struct Sum {
    double count = 0, bytes = 0, seconds = 0;
  };
  std::map<std::string, Sum> collectives;  // by verb, per step; seconds per steady one

  int steady() const { return figures["first_steady_step"]; }
  /// The first and the last step that is steady, from 1 on.
  Json steady_steps() const { return {steady() + 1, figures["steps"]}; }

  double figure(const char* key) const {
    const auto found = figures.find(key);
    return found != figures.end() && found->is_number() ? found->get<double>() : NAN;
  }
};

/// The lowest rank that both recorded.
int common_rank(const fs::path& a, const fs::path& b) {
  std::set<int> ranks[2];
  for (const fs::path* folder : {&a, &b})
    for_each_row(*folder / "timeline.csv", {"rank"}, [&](const CsvRow& row) { ranks[folder == &b].insert(int(row.whole(0))); });
  for (const int rank : ranks[0])
    if (ranks[1].count(rank)) return rank;
  throw ScenarioError(b.string() + ": no rank is in the traces of both runs; run both with the same --ranks");
}

Side read_side(const fs::path& folder, const Json& figures, int rank) {
  const std::string scheme = figures["scheme"];
  Side side{figures, {}, {}, {}};
  for_each_row(folder / "steps.csv", {"scheme", "loss"}, [&](const CsvRow& row) {
    if (row.text(0) == scheme) side.losses.push_back(row.loss(1));
  });
  for_each_row(folder / scheme / "timeline.csv", {"rank", "verb", "payload", "begin_seconds", "end_seconds"},
               [&](const CsvRow& row) {
                 if (row.whole(0) == rank && row.text(2) == "compute") side.computing[row.text(1)] += row.number(4) - row.number(3);
               });
  const double steps = std::max<double>(1, double(side.losses.size()));
  const int steady = side.steady();
  for_each_row(folder / scheme / "collectives.csv", {"rank", "collective", "sent_bytes", "begin_seconds", "end_seconds", "step"},
               [&](const CsvRow& row) {
                 if (row.whole(0) != rank) return;
                 Side::Sum& sum = side.collectives[row.text(1)];
                 sum.count += 1, sum.bytes += row.number(2);
                 if (row.whole(5) >= steady) sum.seconds += row.number(4) - row.number(3);
               });
  for (auto& [collective, sum] : side.collectives) sum.count /= steps, sum.bytes /= steps, sum.seconds /= steps - steady;
  return side;
}

Json or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

/// The rows of one scheme, part by part.
class Rows {
 public:
  void part(const std::string& name) { part_ = name; }
  void add(const std::string& figure, const char* unit, double predicted, double measured, bool is_exact = false) {
    if (!std::isfinite(predicted) && !std::isfinite(measured)) return;
    if (unit != std::string("share") && (!std::isfinite(predicted) || !std::isfinite(measured)))
      lack(part_ + ", " + figure.substr(figure.find_first_not_of(' ')),
           std::isfinite(predicted) ? "was not measured" : "was not predicted");
    // Sums of whole numbers over steps, divided by the steps: equal but for the last bits.
    const bool same = predicted == measured ||
                      (is_exact && std::abs(predicted - measured) <= 1e-9 * std::max(std::abs(predicted), std::abs(measured)));
    rows_.push_back({{"part", part_},
                     {"figure", figure},
                     {"unit", unit},
                     {"predicted", or_null(predicted)},
                     {"measured", or_null(measured)},
                     {"error", or_null(same            ? 0
                                       : measured == 0 ? NAN
                                                       : predicted / measured - 1)}});
    if (is_exact && !same) contradictions_.push_back(rows_.size() - 1);
  }
  /// What the two runs cannot be compared in, and why.
  void lack(const std::string& figure, const std::string& why) { uncompared_.push_back(figure + " (" + why + ")"); }
  /// Figures that each side has by name: a name that one lacks is 0 there.
  template <class Map, class Value>
  void add_by_name(const Map& predicted, const Map& measured, const char* unit, Value value, bool is_exact = false) {
    std::set<std::string> names;
    for (const Map* side : {&predicted, &measured})
      for (const auto& [name, entry] : *side) names.insert(name);
    const auto of = [&](const Map& side, const std::string& name) {
      const auto found = side.find(name);
      return found == side.end() ? 0.0 : value(found->second);
    };
    for (const std::string& name : names) add(name, unit, of(predicted, name), of(measured, name), is_exact);
  }
  void add_bands(const Json& predicted, const Json& measured) {
    const auto bands = [](const Json& composition) {
      std::map<std::string, double> held;
      for (const auto& [band, bytes] : composition.items()) held["  " + band] = bytes.get<double>();
      return held;
    };
    add_by_name(bands(predicted), bands(measured), "bytes", [](double bytes) { return bytes; });
  }

  const Json& rows() const { return rows_; }
  const Json& uncompared() const { return uncompared_; }
  Json contradictions() const {
    Json lines = Json::array();
    for (const std::size_t at : contradictions_) {
      const Json& row = rows_[at];
      const auto number = [](const Json& value) { return value.is_null() ? "nothing" : precise_text(value); };
      lines.push_back(row["part"].get<std::string>() + ", " + row["figure"].get<std::string>() + ": predicted " +
                      number(row["predicted"]) + ", measured " + number(row["measured"]) + " " + row["unit"].get<std::string>());
    }
    return lines;
  }

 private:
  std::string part_;
  Json rows_ = Json::array(), uncompared_ = Json::array();
  std::vector<std::size_t> contradictions_;
};

/// |a - b| / |b| of the parameters after the last step.
void add_theta(const fs::path& a, const fs::path& b, Rows& rows) {
  const std::string name = "relative distance of theta";
  for (const auto& [side, folder] : {std::pair{"predicted", a}, {"measured", b}})
    if (!fs::exists(folder / "theta_final.npy")) return rows.lack(name, "the " + std::string(side) + " run has no theta_final.npy");
  const std::vector<float> x = formats::read_npy(a / "theta_final.npy", 1).values;
  const std::vector<float> y = formats::read_npy(b / "theta_final.npy", 1).values;
  if (x.size() != y.size())
    return rows.lack(name, "they are " + std::to_string(x.size()) + " and " + std::to_string(y.size()) + " numbers");
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = double(x[i]) - double(y[i]);
    difference += d * d, norm += double(y[i]) * double(y[i]);
  }
  const double distance = std::sqrt(difference / norm);
  if (!std::isfinite(distance)) return rows.lack(name, "it is not finite");
  rows.add(name, "share", distance, NAN);
}

/// The largest relative difference of a step's loss, of the steps that both have.
void add_losses(const std::vector<double>& a, const std::vector<double>& b, Rows& rows) {
  const std::string name = "largest relative difference of a step";
  double worst = NAN;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (const double off = std::abs(a[i] / b[i] - 1); std::isfinite(off)) worst = std::isnan(worst) ? off : std::max(worst, off);
  if (std::isnan(worst)) return rows.lack("loss, " + name, "no step has a loss in both");
  rows.add(name, "share", worst, NAN);
}

Json scheme_rows(const Side& p, const Side& m, const fs::path& of_predicted, const fs::path& of_measured) {
  Rows rows;
  const auto both = [&](const char* figure, const char* unit, const char* key, bool is_exact = false) {
    rows.add(figure, unit, p.figure(key), m.figure(key), is_exact);
  };
  rows.part("time per step");
  both("step", "seconds", "step_seconds");
  both("compute", "seconds", "compute_seconds");
  both("exposed communication", "seconds", "exposed_comm_seconds");
  both("hidden communication", "seconds", "hidden_comm_seconds");
  rows.part("operations of the last step");
  rows.add_by_name(p.computing, m.computing, "seconds", [](double seconds) { return seconds; });
  rows.part("time in collectives per step");
  rows.add_by_name(p.collectives, m.collectives, "seconds", [](const Side::Sum& sum) { return sum.seconds; });
  rows.part("collectives per step");
  rows.add_by_name(
      p.collectives, m.collectives, "count", [](const Side::Sum& sum) { return sum.count; }, true);
  rows.part("sent per step");
  both("of the rank that sends most", "bytes", "bytes_sent_per_rank_per_step", true);
  both("control", "bytes", "control_bytes_per_rank_per_step", true);
  rows.add_by_name(
      p.collectives, m.collectives, "bytes", [](const Side::Sum& sum) { return sum.bytes; }, true);
  rows.part("memory");
  both("resident", "bytes", "resident_bytes");
  rows.add_bands(p.figures["resident_composition"], m.figures["resident_composition"]);
  both("total peak", "bytes", "peak_bytes");
  rows.add_bands(p.figures["peak_composition"], m.figures["peak_composition"]);
  both("reserved", "bytes", "reserved_bytes");
  rows.part("loss");
  both("first", "loss", "loss_first");
  both("last", "loss", "loss_last");
  add_losses(p.losses, m.losses, rows);
  add_theta(of_predicted, of_measured, rows);
  return {{"steady_steps", {{"predicted", p.steady_steps()}, {"measured", m.steady_steps()}}},
          {"rows", rows.rows()},
          {"contradictions", rows.contradictions()},
          {"uncompared", rows.uncompared()}};
}

void check_that_they_compare(const fs::path& predicted, const Json& p, const fs::path& measured, const Json& m) {
  for (const char* key : {"world", "parameters"})
    if (p[key] != m[key])
      throw ScenarioError(measured.string() + ": " + p["scheme"].get<std::string>() + ": " + key + " is " + m[key].dump() +
                          " here and " + p[key].dump() + " in " + predicted.string() + "; run both from one scenario");
}

}  // namespace

Json agreement(const fs::path& predicted, const fs::path& measured) {
  const Json of_predicted = read_summary(predicted), of_measured = read_summary(measured);
  Json result = {{"predicted", predicted.string()}, {"measured", measured.string()}, {"changed", Json::array()},
                 {"schemes", Json::array()},        {"missing", Json::array()},      {"unpredicted", Json::array()}};
  for (Json& each : changed_in_scenario({predicted, measured}))
    if (each["key"] != "backend") result["changed"].push_back(std::move(each));  // that is what is compared
  for (const Json& p : of_predicted["results"]) {
    const Json& results = of_measured["results"];
    const auto found = std::find_if(results.begin(), results.end(), [&](const Json& m) { return m["scheme"] == p["scheme"]; });
    const std::string scheme = p["scheme"];
    if (found == results.end()) {
      result["missing"].push_back(scheme);
      continue;
    }
    check_that_they_compare(predicted, p, measured, *found);
    const int rank = common_rank(predicted / scheme, measured / scheme);
    Json entry = {{"scheme", scheme}, {"backends", {p["backend"], (*found)["backend"]}}, {"rank", rank}};
    entry.update(
        scheme_rows(read_side(predicted, p, rank), read_side(measured, *found, rank), predicted / scheme, measured / scheme));
    result["schemes"].push_back(std::move(entry));
  }
  for (const Json& m : of_measured["results"]) {
    const Json& all = of_predicted["results"];
    if (std::none_of(all.begin(), all.end(), [&](const Json& each) { return each["scheme"] == m["scheme"]; }))
      result["unpredicted"].push_back(m["scheme"]);
  }
  if (result["schemes"].empty())
    throw ScenarioError(measured.string() + ": has no scheme in common with " + predicted.string() +
                        "; run both from one scenario");
  return result;
}

}  // namespace shardsim
