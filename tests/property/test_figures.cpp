// The textbook's table at eight ranks, from the ledger and from what ring's messages carry: exact, never from the formulas.
#include <doctest/doctest.h>

#include <cmath>

#include "core/formulas.h"
#include "runs.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

/// 2 + 2 + 12 bytes, eight ranks, messages; the parameter count is a multiple of eight, so nothing is padded.
Scenario mixed_precision(Cut::Kind cut) {
  Scenario s = small_scenario();
  s.world = 8;
  s.knobs.precision = {Dtype::bf16, Dtype::bf16, Dtype::bf16};
  s.knobs.units = {cut, 0};
  s.model.widths = {24, 32, 16, 8};
  s.fabric = Fidelity::ring;
  return s;
}

struct Expected {
  const char* scheme;
  double traffic, resident, peak, param, grad, opt, gathered;
};

}  // namespace

TEST_CASE("at eight ranks and one unit, residents are 16, 5.5, 3.75, 2 and traffic 2, 2, 2, 3, counted from messages") {
  const Expected table[] = {{"dp", 2, 16, 16, 2, 2, 12, 0},
                            {"zero1", 2, 5.5, 5.5, 2, 2, 1.5, 0},
                            {"zero2", 2, 3.75, 5.75, 2, 2.25, 1.5, 0},
                            {"zero3", 3, 2, 6, 0.25, 2.25, 1.5, 2},
                            {"zero3_keep", 2, 2, 6, 0.25, 2.25, 1.5, 2}};
  const Scenario s = mixed_precision(Cut::Kind::whole);
  for (const Expected& expected : table) {
    INFO(expected.scheme);
    const SchemeResult result = run(s, expected.scheme);
    REQUIRE(result.padding == 0);
    const double psi = double(result.parameters), unit = psi * 2 * 7 / 8;
    for (const RankResult& rank : result.ranks) {
      CHECK(double(rank.traffic_bytes) == s.steps * expected.traffic * unit);
      std::int64_t resident = 0;
      for (const Part& part : rank.resident) resident += part.bytes;
      CHECK(double(resident) == expected.resident * psi);
      const Peak& peak = rank.model_state_peak;
      CHECK(double(peak.bytes) == expected.peak * psi);
      CHECK(double(peak.of(Band::param)) == expected.param * psi);
      CHECK(double(peak.of(Band::grad)) == expected.grad * psi);
      CHECK(double(peak.of(Band::opt)) == expected.opt * psi);
      CHECK(double(peak.of(Band::gathered)) == expected.gathered * psi);
      CHECK(rank.peak.bytes > peak.bytes);  // activations and workspace, apart
      CHECK(rank.peak.of(Band::activation) > 0);
    }
    // What crossed the links is what the ranks say they sent: every rank has one port up.
    double up = 0;
    for (const LinkLoad& load : result.links)
      if (load.link.find("_UP") != std::string::npos) up += load.bytes;
    CHECK(up == 8 * s.steps * expected.traffic * unit);
    // The founding prototype's column stands beside it as a formula.
    const double formula = formulas::table_peak_bytes(result.shard, s.knobs.precision, 8, true);
    CHECK(formula == (result.shard.has(Band::param) ? 6 : expected.resident));
  }
}

TEST_CASE("units of a layer approach the founding table's peaks from above as the layers grow more") {
  Scenario s = mixed_precision(Cut::Kind::layer);
  s.fabric = Fidelity::coupled;
  s.knobs.prefetch = 0, s.knobs.unreduced = 0;
  for (const char* scheme : {"zero2", "zero3"}) {
    double last = 100;
    for (const int layers : {1, 2, 4, 8, 16}) {
      s.model.widths.assign(std::size_t(layers) + 1, 24);
      const SchemeResult result = run(s, scheme);
      const double psi = double(result.parameters);
      std::int64_t resident = 0;
      for (const Part& part : result.ranks[0].resident) resident += part.bytes;
      const double extra = double(result.ranks[0].model_state_peak.bytes - resident) / psi;
      // One full gradient beyond the slices (2 bytes of one layer), and for zero3 one gathered layer (2 more).
      CHECK(extra == doctest::Approx((std::string(scheme) == "zero2" ? 2.0 : 4.0) / layers).epsilon(1e-12));
      CHECK(extra < last);
      last = extra;
    }
  }
}

TEST_CASE("numerics full, twin and off charge the same bytes and the same seconds") {
  for (const std::string& scheme : schemes())
    for (const Fidelity fidelity : {Fidelity::ring, Fidelity::coupled}) {
      INFO(scheme);
      Scenario s = small_scenario();
      s.model.widths = {48, 64, 40, 33};
      s.fabric = fidelity;
      s.knobs.streams = 3;
      const SchemeResult full = run(s, scheme);
      s.numerics = Numerics::twin, s.twin_width = 7;
      const SchemeResult twin = run(s, scheme);
      s.numerics = Numerics::off;
      const SchemeResult off = run(s, scheme);
      CHECK(off.theta.empty());
      for (const SchemeResult* other : {&twin, &off})
        for (std::size_t rank = 0; rank < full.ranks.size(); ++rank) {
          CHECK(other->ranks[rank].step_end == full.ranks[rank].step_end);
          CHECK(other->ranks[rank].traffic_bytes == full.ranks[rank].traffic_bytes);
          CHECK(other->ranks[rank].peak.bytes == full.ranks[rank].peak.bytes);
          CHECK(other->ranks[rank].entries.size() == full.ranks[rank].entries.size());
          CHECK(other->ranks[rank].spans.size() == full.ranks[rank].spans.size());
        }
    }
}

TEST_CASE("two simulated runs of one scenario are the same to the bit") {
  const Scenario s = small_scenario();
  const SchemeResult a = run(s, "zero3"), b = run(s, "zero3");
  CHECK(a.theta == b.theta);
  for (std::size_t rank = 0; rank < a.ranks.size(); ++rank) {
    CHECK(a.ranks[rank].step_end == b.ranks[rank].step_end);
    REQUIRE(a.ranks[rank].spans.size() == b.ranks[rank].spans.size());
    for (std::size_t i = 0; i < a.ranks[rank].spans.size(); ++i) {
      CHECK(a.ranks[rank].spans[i].begin == b.ranks[rank].spans[i].begin);
      CHECK(a.ranks[rank].spans[i].end == b.ranks[rank].spans[i].end);
    }
  }
}

TEST_CASE("another seed trains other parameters, and the loss falls") {
  Scenario s = small_scenario();
  s.steps = 60;
  const SchemeResult one = run(s, "dp");
  s.seed = 2;
  const SchemeResult two = run(s, "dp");
  CHECK(one.theta != two.theta);
  CHECK(one.ranks[0].losses.back() < 0.5f * one.ranks[0].losses.front());
}

TEST_CASE("units smaller than the world are padded, charged and trained") {
  Scenario s = small_scenario();
  s.world = 8;
  s.model.widths = {2, 1, 1};  // units of 3 and 2 parameters
  const SchemeResult zero3 = run(s, "zero3");
  CHECK(zero3.parameters == 5);
  CHECK(zero3.padding == 11);  // both units become 8
  CHECK(zero3.theta == run(s, "dp").theta);
}
