// Tape: what a rank of an even scheme enqueues in a step, taken down once and played by every rank. Without numerics all of them
// enqueue the same, so that a scheme and its model need not be there for each: the ranks differ in when they get to it.
#pragma once
#include <map>
#include <memory>

#include "backends/simgrid/taking.h"

namespace shardsim {

namespace simgrid_backend {
class Tapes;
}  // namespace simgrid_backend

/// A run's program for all of its ranks: of each kind of GPU a tape per step, equal ones stored once.
class Score {
 public:
  explicit Score(Original);
  ~Score();
  /// Whether one rank's program is everybody's (Scheme::is_even). Goes through a bind; false if that throws: the run will say why.
  bool is_even() const;
  /// A rank's part, which needs a simulated device and its fabric and leaves the rank's model alone. Each step is taken of the last
  /// rank, too: an IllegalStep comes out of a part if that does something else.
  std::unique_ptr<Scheme> part();
  /// Rank 0's, bound, on a device that does nothing.
  Model& model() const;
  const Scheme& scheme() const;

  /// For parts.
  simgrid_backend::Tapes& tapes(const Gpu&);

 private:
  Original original_;
  std::unique_ptr<simgrid_backend::Taking> any_;  // on no GPU in particular
  std::map<const Gpu*, std::unique_ptr<simgrid_backend::Tapes>> tapes_;
};

}  // namespace shardsim
