// Metrics: the figures that are derived from a scheme's result.
#pragma once
#include "app/result.h"
#include "app/scenario.h"
#include "formats/summary.h"

namespace shardsim {

formats::Figures measure(const Scenario&, const SchemeResult&);

/// 64-bit FNV-1a over the little-endian bytes.
std::uint64_t theta_hash(const std::vector<float>& theta);

/// A stretch of time, in seconds.
struct Interval {
  double begin, end;
};

/// Seconds covered by at least one interval.
double covered(std::vector<Interval>);

/// Seconds per step in which this rank computes; in which a collective runs while nothing is computed (exposed), and while
/// something is (hidden); of the steps from `first` on. What lies before or after them does not count.
struct RankTimes {
  double compute = 0, exposed = 0, hidden = 0;
};
RankTimes times_of(const RankResult&, int first);

/// How often each unit's parameters moved in a steady step, by verb: bytes of the buffers / bytes of all parameters. Recorded ranks
/// only.
struct Movement {
  Verb verb;
  double units;
};
std::vector<Movement> movements(const Scenario&, const SchemeResult&);

/// Which units a step gathers more often than others, and why: a reason for more traffic than passes over the model. Or empty.
std::string repeated_gathers(const Scenario&, const SchemeResult&);

}  // namespace shardsim
