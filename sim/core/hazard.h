// Hazards: a happens-before check over one rank's streams, made when an operation is enqueued. A missing event edge is found here
// on any backend, without hardware, even when the numbers come out right.
//
// Each lane carries a vector clock over all lanes. An access to a range of a storage has to come after every earlier access to an
// overlapping range, unless both only read: in the same lane by program order, across lanes through record and wait.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/stream.h"
#include "core/tensor.h"

namespace shardsim {

using Clock = std::array<std::uint64_t, lane_count>;

struct HazardHistory {
  struct Access {
    std::int64_t begin, end;  ///< charged elements
    std::uint64_t stamp;      ///< the accessing lane's own clock
    Lane lane;
    bool write;
    Label label;
    const char* op;
  };
  std::vector<Access> accesses;
};

class Hazards {
 public:
  explicit Hazards(bool on) : on_(on) {}
  bool on() const { return on_; }

  /// An operation begins on `lane`: the accesses that follow are its own.
  void tick(Lane lane) { ++clock(lane)[unsigned(lane)]; }
  /// What does not write, reads. Throws IllegalStep when the access is not ordered after a conflicting one, naming both operations
  /// and the missing edge.
  void access(Lane, const Tensor&, bool reads, bool writes, const char* op, Label);
  void record(Lane, Event);
  void wait(Lane, Event);
  void synchronize();

 private:
  struct Mark {
    std::uint64_t at;
    Clock clock;
  };
  Clock& clock(Lane lane) { return clocks_[unsigned(lane)]; }

  bool on_;
  std::array<Clock, lane_count> clocks_{};
  std::array<std::vector<Mark>, lane_count> marks_;
};

}  // namespace shardsim
