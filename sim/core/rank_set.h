// RankSet: some of a world's ranks: the first so many, or ranges.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

namespace shardsim {

class RankSet {
 public:
  /// The first `count` ranks; an integer is a set.
  RankSet(int count) {
    if (count > 0) add(0, count - 1);
  }
  void add(int first, int last) { ranges_.emplace_back(first, last); }
  bool has(int rank) const {
    return std::any_of(ranges_.begin(), ranges_.end(), [rank](const auto& r) { return r.first <= rank && rank <= r.second; });
  }
  bool operator==(const RankSet&) const = default;

 private:
  std::vector<std::pair<int, int>> ranges_;  // both ends included
};

}  // namespace shardsim
