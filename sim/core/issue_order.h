// IssueOrder: the ranks of a group have to issue the same collectives in the same order. Checked when one is issued, so that a
// mistake is an error that names both ranks and both verbs, on every backend, and never a hang.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "core/mesh.h"
#include "core/stream.h"

namespace shardsim {

class IssueOrder {
 public:
  /// Throws IllegalStep when another rank issued something else as its k-th collective in this group, or has finished before it.
  void issue(int rank, const Group&, Lane, Verb, Label, std::int64_t bytes, int root = 0);
  /// `rank` issues nothing more. Throws IllegalStep when another rank already waits for it.
  void finish(int rank);

 private:
  struct Issued {
    Verb verb;
    Lane lane;
    Label label;
    std::int64_t bytes;
    int root;
    int rank;  ///< the first that issued it
    int ranks = 1;
  };
  struct History {
    Group group;
    std::deque<Issued> open;   ///< issued by some members, not by all
    std::uint64_t closed = 0;  ///< issued by all members
    std::vector<std::uint64_t> count;
    std::vector<bool> finished;
    bool any_finished = false;
  };
  std::mutex mutex_;
  std::map<std::tuple<int, int, int>, History> histories_;
  std::vector<bool> finished_;
};

}  // namespace shardsim
