// The property matrix: for one choice of units, world and precision, all schemes give the same bits on every backend, for every
// stream count, budget and switch; and what they send and hold is the closed form's. A pairwise cover; all of it with
// SHARDSIM_FULL=1.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <set>

#include "runs.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

enum Factor {
  scheme,
  where,
  world,
  streams,
  prefetch,
  unreduced,
  cut,
  precision,
  grads,
  barrier,
  clipping,
  accumulation,
  factor_count
};
constexpr std::array<int, factor_count> levels{5, 4, 6, 3, 6, 6, 3, 3, 2, 2, 2, 2};
using Row = std::array<int, factor_count>;

constexpr int worlds[] = {1, 2, 3, 4, 5, 8};
constexpr int budgets[] = {0, 1, 2, 3, 4, unlimited};
const Cut cuts[] = {{Cut::Kind::whole, 0}, {Cut::Kind::layer, 0}, {Cut::Kind::bucket, 300}};
const Precision precisions[] = {
    {Dtype::fp32, Dtype::fp32, Dtype::fp32}, {Dtype::bf16, Dtype::bf16, Dtype::bf16}, {Dtype::bf16, Dtype::bf16, Dtype::fp32}};

Scenario scenario_of(const Row& row) {
  Scenario s = small_scenario();
  const std::array<Fidelity, 3> fidelities{Fidelity::ring, Fidelity::coupled, Fidelity::formula};
  if (row[where] < 3) s.fabric = fidelities[row[where]];
  else s.backend = "threads";
  s.world = worlds[row[world]];
  s.knobs.streams = row[streams] + 1;
  s.knobs.prefetch = budgets[row[prefetch]];
  s.knobs.unreduced = budgets[row[unreduced]];
  s.knobs.units = cuts[row[cut]];
  s.knobs.precision = precisions[row[precision]];
  s.knobs.grads_resident = row[grads] == 0;
  s.knobs.step_barrier = row[barrier] == 0;
  s.knobs.clip = row[clipping] ? 0.05f : 0.f;
  s.knobs.accumulation = row[accumulation] ? 2 : 1;
  return s;
}

/// Rows such that every pair of levels of two factors occurs: greedy, each row takes for each factor the level with most new pairs.
std::vector<Row> pairwise() {
  std::set<std::array<int, 4>> open;
  for (int f = 0; f < factor_count; ++f)
    for (int g = f + 1; g < factor_count; ++g)
      for (int i = 0; i < levels[f]; ++i)
        for (int j = 0; j < levels[g]; ++j) open.insert({f, i, g, j});
  std::vector<Row> rows;
  while (!open.empty()) {
    Row row;
    row.fill(-1);
    const auto [f, i, g, j] = *open.begin();
    row[f] = i, row[g] = j;
    for (int h = 0; h < factor_count; ++h) {
      if (row[h] >= 0) continue;
      int best = 0, most = -1;
      for (int level = 0; level < levels[h]; ++level) {
        int fresh = 0;
        for (int k = 0; k < factor_count; ++k)
          if (row[k] >= 0 && k != h) fresh += int(k < h ? open.count({k, row[k], h, level}) : open.count({h, level, k, row[k]}));
        if (fresh > most) most = fresh, best = level;
      }
      row[h] = best;
    }
    for (int a = 0; a < factor_count; ++a)
      for (int b = a + 1; b < factor_count; ++b) open.erase({a, row[a], b, row[b]});
    rows.push_back(row);
  }
  return rows;
}

/// Every combination of scheme, backend, world, streams, prefetch, unreduced and units; the other factors take turns.
std::vector<Row> everything() {
  std::vector<Row> rows;
  Row row{};
  for (std::size_t count = 0;; ++count) {
    row[precision] = int(count % 3), row[grads] = int(count / 3 % 2), row[barrier] = int(count / 6 % 2);
    row[clipping] = int(count / 12 % 2), row[accumulation] = int(count / 24 % 2);
    rows.push_back(row);
    int f = 0;
    while (f <= cut && ++row[f] == levels[f]) row[f++] = 0;
    if (f > cut) return rows;
  }
}

std::string in_words(const Row& row) {
  const Scenario s = scenario_of(row);
  const std::array<const char*, 4> places{"ring", "coupled", "formula", "threads"};
  return schemes()[row[scheme]] + " on " + places[row[where]] + ", world " + std::to_string(s.world) + ", streams " +
         std::to_string(s.knobs.streams) + ", prefetch " + std::to_string(s.knobs.prefetch) + ", unreduced " +
         std::to_string(s.knobs.unreduced) + ", cut " + std::to_string(row[cut]) + ", precision " + std::to_string(row[precision]) +
         ", grads " + std::to_string(row[grads]) + ", barrier " + std::to_string(row[barrier]) + ", clip " +
         std::to_string(row[clipping]) + ", accumulation " + std::to_string(row[accumulation]);
}

/// What decides the bits: under accumulation a sharded gradient is reduced more often, so zero2 and zero3 form a class of their
/// own.
std::array<int, 6> bits_class(const Row& row) {
  const bool reduces_often = row[accumulation] && row[scheme] >= 2 && worlds[row[world]] > 1;
  return {row[world], row[cut], row[precision], row[clipping], row[accumulation], reduces_often};
}

void check_figures(const Row& row, const Scenario& s, const SchemeResult& result) {
  const std::string& name = schemes()[row[scheme]];
  const std::int64_t padded = padded_parameters(result), n = s.world;
  const Precision& p = s.knobs.precision;
  const bool is_simulated = row[where] < 3;
  for (const RankResult& rank : result.ranks) {
    CHECK(rank.traffic_bytes == s.steps * closed_form_bytes(s, name, result));
    const bool gathers_norm = s.knobs.clip > 0 && name != "dp";
    CHECK(rank.control_bytes == (gathers_norm ? s.steps * (n - 1) * 4 : 0));  // one partial square from each rank
    auto share = [&](Band band) { return result.shard.has(band) ? n : 1; };
    for (Band band : {Band::param, Band::opt}) CHECK(resident_of(rank, band) == p.bytes_per_parameter(band) * padded / share(band));
    CHECK(resident_of(rank, Band::grad) ==
          (s.knobs.grads_resident ? p.bytes_per_parameter(Band::grad) * padded / share(Band::grad) : 0));
    for (Band band : {Band::gathered, Band::activation, Band::bucket, Band::workspace}) CHECK(resident_of(rank, band) == 0);
    if (!is_simulated) continue;
    // The budgets hold at every instant, so also at the peak; one slice of slack where the reduced gradient exists beside the full
    // one.
    std::int64_t largest = 0;
    for (std::int64_t unit : result.unit_parameters) largest = std::max(largest, (unit + n - 1) / n * n);
    const std::int64_t of_grad = rank.model_state_peak.of(Band::grad), of_gathered = rank.model_state_peak.of(Band::gathered);
    if (result.shard.has(Band::grad) && s.knobs.unreduced != unlimited)
      CHECK(of_grad <= p.bytes_per_parameter(Band::grad) * (padded / n + std::int64_t(s.knobs.unreduced + 1) * largest));
    if (name == "zero3" && s.knobs.prefetch != unlimited)
      CHECK(of_gathered <= bytes_of(p.param) * std::int64_t(s.knobs.prefetch + 1) * largest);
    CHECK(rank.model_state_peak.bytes <= rank.peak.bytes);
  }
}

}  // namespace

TEST_SUITE("matrix") {
  TEST_CASE("the same bits, the closed form's bytes and the table's residents in every corner of the matrix") {
    const bool full = std::getenv("SHARDSIM_FULL") && *std::getenv("SHARDSIM_FULL");
    const std::vector<Row> rows = full ? everything() : pairwise();
    std::map<std::array<int, 6>, std::uint64_t> expected;
    for (const Row& row : rows) {
      INFO(in_words(row));
      const Scenario s = scenario_of(row);
      const SchemeResult result = run(s, schemes()[row[scheme]]);
      check_figures(row, s, result);
      const auto key = bits_class(row);
      if (!expected.count(key)) {
        Row reference = row;  // the plainest run of the same class
        reference[scheme] = key[5] ? 2 : 0, reference[where] = 2, reference[streams] = 0, reference[prefetch] = 0;
        reference[unreduced] = 0, reference[grads] = 0, reference[barrier] = 0;
        expected[key] = hash_of(run(scenario_of(reference), schemes()[reference[scheme]]).theta);
      }
      CHECK(hash_of(result.theta) == expected[key]);
    }
    MESSAGE(rows.size() << " rows, " << expected.size() << " classes of bits");
  }
}
