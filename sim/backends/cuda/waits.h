// Waits: how long nodes wait for what, all of it shares of a scenario's `patience`.
#pragma once
#include <sstream>
#include <string>

namespace shardsim::cuda {

/// Seconds.
struct Waits {
  double patience;  ///< for all nodes to be there before the first scheme
  double stall;     ///< for a GPU, or for all nodes to begin a scheme: ends before whoever ends a process after `patience`
  double silence;   ///< until a machine that vanished without a word is gone: TCP asks it for signs of life
  double refusal;   ///< of a node that cannot run, for the others to come and be told
  double farewell;  ///< after a failure, for the others to have heard of it
  double news;      ///< of a failed GPU, for the news that a node is gone, which says more than what the GPU says

  /// 120, 60, 15, 10, 5 and 2 for the patience that a scenario has if it does not say.
  static Waits of(double patience) { return {patience, patience / 2, patience / 8, patience / 12, patience / 24, patience / 60}; }
};

/// "0.05 s".
inline std::string text_of_seconds(double seconds) {
  std::ostringstream text;
  text << seconds << " s";
  return text.str();
}

}  // namespace shardsim::cuda
