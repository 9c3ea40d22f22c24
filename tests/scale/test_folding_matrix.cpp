// Folding at size: every scheme on one node, on several and in a fat tree, sound, with one slow rank and with one slow link. Each
// scheme sees every machine and every fault at each size; every pair of them with SHARDSIM_FULL=1.
#include <doctest/doctest.h>

#include <cstdlib>
#include <deque>

#include "scale/folding.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

constexpr Fault faults[] = {Fault::none, Fault::slow_rank, Fault::slow_link};

/// `turn`: which fault is whose turn.
void check_all_schemes(const MachineSpec& machine, std::size_t turn) {
  const bool all = std::getenv("SHARDSIM_FULL") && *std::getenv("SHARDSIM_FULL");
  const int world = machine.nodes * machine.gpus_per_node;
  std::deque<PlatformFile> files;
  for (const Fault fault : faults) files.emplace_back(with_fault(machine, fault));
  int runs = 0, simulated = 0;
  double worst = 0;
  for (const FoldingCase& which : folding_cases()) {
    ++turn;
    if (which.words.contains("zero_quantized_gradients") && world > 64) continue;  // minutes of transfers between all pairs
    for (std::size_t f = 0; f < std::size(faults); ++f) {
      if (!all && (f + turn) % std::size(faults) != 0) continue;
      CAPTURE(f);
      Scenario s = cost_only_wide(world, which.is_even);
      s.platform = files[f].path();
      s.checks_hazards = false;  // the smaller tests' business
      s.knobs.shards = machine.nodes > 1 ? machine.gpus_per_node : std::min(8, world / 2);
      const FoldedRun run = check_folded_is_all(s, which);
      ++runs, simulated += int(run.simulated), worst = std::max(worst, run.difference);
      if (!is_textbook(which.scheme)) continue;
      // All alike; or all but the slow one; with groups of groups, whoever shares a group with it but not with all, too.
      if (faults[f] == Fault::none) CHECK(run.simulated == 1);
      if (faults[f] == Fault::slow_rank) CHECK(run.simulated == (which.scheme == "hsdp" ? 4 : 2));
    }
  }
  MESSAGE(runs << " runs of " << world << " ranks, " << simulated << " ranks simulated; dates at most " << worst << " apart");
}

}  // namespace

TEST_CASE("every scheme folds 8 ranks exactly, on one node, on several and in a fat tree, also with a slow rank or link") {
  check_all_schemes(machine(1, 8), 0);
  check_all_schemes(machine(4, 2), 1);
  check_all_schemes(machine(4, 2, 2), 2);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // where every rank is slow
TEST_CASE("every scheme folds 64 ranks exactly, on one node, on several and in a fat tree, also with a slow rank or link") {
  check_all_schemes(machine(1, 64), 0);
  check_all_schemes(machine(8, 8), 1);
  check_all_schemes(machine(8, 8, 2), 2);
}

TEST_CASE("every scheme folds 512 ranks of one node exactly, also with a slow rank or link") {
  check_all_schemes(machine(1, 512), 0);
}

TEST_CASE("every scheme folds 512 ranks of many nodes exactly, also with a slow rank or link") {
  check_all_schemes(machine(64, 8), 1);
}

TEST_CASE("every scheme folds 512 ranks of a fat tree exactly, also with a slow rank or link") {
  check_all_schemes(machine(64, 8, 8), 2);
}
#endif
