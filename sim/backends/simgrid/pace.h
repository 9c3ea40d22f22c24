// Pace: how fast a GPU's compute lane proceeds. A collective takes a share of it, so that the ops that it overlaps last longer.
#pragma once
#include <algorithm>
#include <vector>

namespace shardsim::simgrid_backend {

class Pace {
  struct Change {
    double date, taken;
  };

 public:
  /// Collectives together never take more than this; what would be beyond is not made up for.
  static constexpr double most = 0.9;

  /// From one date to the other, `share` of the lane's time is taken. Calls come in order of `from`.
  void take(double from, double to, double share) {
    const std::size_t first = change_at(from), last = change_at(to);
    for (std::size_t i = first; i < last; ++i) changes_[i].taken += share;
  }
  /// Nobody asks for work that begins before the date any more.
  void forget(double date) {
    if (changes_.empty()) return;
    auto kept = std::find_if(changes_.begin(), changes_.end(), [date](const Change& change) { return change.date > date; });
    if (kept != changes_.begin() && (kept - 1)->taken > 0) --kept;
    changes_.erase(changes_.begin(), kept);
  }

  /// Follows one op after the other.
  class Walk {
   public:
    explicit Walk(const Pace& pace) : next_(pace.changes_.begin()), last_(pace.changes_.end()) {}
    /// When `seconds` of work that begin at the date are done, as far as collectives are known; begins must not decrease.
    double end(double begin, double seconds) {
      for (; next_ != last_; rate_ = 1 - std::min(next_++->taken, most)) {
        if (next_->date <= begin) continue;
        const double done = (next_->date - begin) * rate_;
        if (seconds <= done) break;
        seconds -= done, begin = next_->date;
      }
      return begin + seconds / rate_;
    }

   private:
    std::vector<Change>::const_iterator next_, last_;
    double rate_ = 1;
  };

 private:
  /// The position of the change at this date, which so far changes nothing if it is new.
  std::size_t change_at(double date) {
    const auto at = std::find_if(changes_.begin(), changes_.end(), [date](const Change& change) { return change.date >= date; });
    const std::size_t position = std::size_t(at - changes_.begin());
    if (at == changes_.end() || at->date > date) changes_.insert(at, {date, position == 0 ? 0 : (at - 1)->taken});
    return position;
  }
  std::vector<Change> changes_;  // in order of time; before the first, nothing is taken
};

}  // namespace shardsim::simgrid_backend
