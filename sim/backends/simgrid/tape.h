// Tape: what a rank of an even scheme enqueues in a step, taken down once and played by every rank. Without numerics all of them
// enqueue the same, so that a scheme and its model need not be there for each: the ranks differ in when they get to it.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "core/crossing.h"
#include "core/scheme.h"
#include "cost/gpu.h"

namespace shardsim {

namespace simgrid_backend {

class Taker;

struct Tape {
  enum class Call : std::uint8_t { begin_step, run, nothing, hold, let_go, record, wait, collective, synchronize, until };
  struct Line {
    Call call;
    Lane lane = Lane::compute;
    std::uint8_t op = 0;                       ///< `run`: position in the Op variant
    Lane of = Lane::compute;                   ///< `wait`, `until`: of the event
    Label label = {};                          ///< `run`
    std::int64_t at = 0;                       ///< of the event, from what the lane had when the tape began
    double launch = 0;                         ///< `run`: seconds of the host
    double seconds = 0;                        ///< `run`: its price
    Storage* storage = nullptr;                ///< `hold`, `let_go`: has the facts that a ledger asks for
    const Collective* collective = nullptr;    ///< that rank 0 issues
    Group Mesh::*group = nullptr;              ///< its group, by the place in the mesh
    bool operator==(const Line& other) const;  ///< the same to whoever plays it
  };
  std::vector<Line> lines;
  Crossing crossed;
};

}  // namespace simgrid_backend

/// A run's program for all of its ranks: of each kind of GPU a tape per step, equal ones stored once.
class Score {
 public:
  struct Original {
    std::function<std::unique_ptr<Model>(Device&)> model;
    std::function<std::unique_ptr<Scheme>()> scheme;
    const Knobs& knobs;
    const std::vector<float>& theta0;
    std::string name;
    int world;
  };
  explicit Score(Original);
  ~Score();
  /// Whether one rank's program is everybody's (Scheme::is_even). Goes through a bind; false if that throws: the run will say why.
  bool is_even() const;
  /// A rank's part, which needs a simulated device and its fabric and leaves the rank's model alone.
  std::unique_ptr<Scheme> part();
  /// Rank 0's, bound, on a device that does nothing.
  Model& model() const;
  const Scheme& scheme() const;

  /// For parts.
  simgrid_backend::Taker& taker(const Gpu&);

 private:
  Original original_;
  Gpu ideal_;
  std::unique_ptr<simgrid_backend::Taker> any_;
  std::map<const Gpu*, std::unique_ptr<simgrid_backend::Taker>> takers_;
};

}  // namespace shardsim
