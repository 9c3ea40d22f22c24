// Checks that several real systems have to pass: each missing wait is named, and losses are dp's on both backends.
#pragma once
#include "systems/systems.h"

namespace shardsim::test {

/// Why a run is refused, or what is wrong in it; empty if it runs.
inline std::string error_of(const Scenario& s, const std::string& scheme, const Words& words = {}) {
  try {
    train(s, scheme, words);
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

/// A wait that a scheme can leave out: `waits` for what `before` has queued.
struct MissingWait {
  Edge edge;
  Lane waits, before;
};
/// Each, left out by itself, is named by the hazard checker, on both backends.
inline void check_missing_waits_are_named(Scenario s, const std::string& scheme, const Words& words,
                                          const std::vector<MissingWait>& waits) {
  for (const MissingWait& wait : waits)
    for (const char* backend : {"simgrid", "threads"}) {
      s.backend = backend, s.knobs.omitted = wait.edge;
      const std::string message = error_of(s, scheme, words);
      INFO(scheme << ", edge " << int(wait.edge) << ": " << message);
      CHECK(message.find(std::string("the ") + name_of(wait.waits) + " stream has to wait for an event recorded on the " +
                         name_of(wait.before) + " stream") != std::string::npos);
    }
}

/// With each number of streams its losses are dp's within 1e-5, and theta on threads is that on simgrid, to the bit.
inline void check_follows_dp(Scenario s, const std::string& scheme, const Words& words, const std::vector<int>& streams) {
  const SchemeResult dp = test::run(s, "dp");
  for (const int count : streams) {
    s.knobs.streams = count, s.backend = "simgrid";
    const SchemeResult ours = train(s, scheme, words);
    CAPTURE(ours.scheme);
    CAPTURE(count);
    CHECK(worst_difference(ours.ranks[0].losses, dp.ranks[0].losses) < 1e-5);
    s.backend = "threads";
    CHECK(hash_of(train(s, scheme, words).theta) == hash_of(ours.theta));
  }
}

}  // namespace shardsim::test
