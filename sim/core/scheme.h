// Scheme: what a plugin is. One object per rank; the same object runs on SimGrid, on threads and under NCCL.
#pragma once
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/fabric.h"
#include "core/model.h"
#include "core/unit.h"

namespace shardsim {

inline constexpr int unlimited = std::numeric_limits<int>::max();

/// The event edges that BandScheme inserts: who waits for what, and why. Tests remove each in turn and expect to be told.
enum class Edge : std::uint8_t {
  parameters_before_use,      ///< compute waits until a full parameter is published
  gather_before_use,          ///< compute waits until a unit is gathered
  update_before_gather,       ///< a gather waits for Adam
  release_before_gather,      ///< a gather waits until the prefetch budget has room
  gradient_before_reduction,  ///< a reduction waits for the backward that makes its gradient
  reduction_before_backward,  ///< a backward waits until the unreduced budget has room
  reduction_before_update,    ///< the norm and Adam wait for the reduced gradient
  count,
};

/// A scenario's choices that every scheme obeys. A budget of `unlimited` is no budget.
struct Knobs {
  Precision precision;
  Cut units;
  int streams = 2;    ///< 1: all on one; 2: compute beside one communicator; 3: gathers and reductions apart; 4: copies, too
  int prefetch = 1;   ///< gathered units that may be alive beyond the one in use
  int unreduced = 1;  ///< full gradients that may be alive beyond the one being made
  bool grads_resident = true;  ///< false: gradients live from backward to Adam only, as in most frameworks
  bool step_barrier = true;    ///< the host waits for all streams at the end of a step
  int accumulation = 1;        ///< micro-batches per step
  float clip = 0;              ///< largest gradient norm; 0: no clipping
  AdamRule adam;
  bool decays_matrices_only = false;  ///< weight decay spares vectors: biases, norms
  LrSchedule schedule;
  LossScale loss_scale;
  int shards = 0;  ///< ranks that share one copy, for schemes that replicate their shards, or a node, for DeepSpeed's qgZ; 0: all
  Edge omitted = Edge::count;  ///< for tests: an event edge that is left out
};

/// A line of a step's timeline as a system tells it: what set off a collective, what it is, and what hangs on it.
struct TimelineEntry {
  std::string trigger, what;
  std::int64_t bytes = 0;  ///< of the whole buffer
  Lane lane = Lane::compute;
  std::string waits_for, frees;
};

/// All that a scheme may see of its rank.
struct Rank {
  Device& device;
  Fabric& fabric;
  Model& model;
  const Knobs& knobs;
  const std::vector<float>& theta0;  ///< all parameters, model order; empty without numerics
  std::string scheme;                ///< its name, for messages
  int index = 0, world = 1;
  std::vector<TimelineEntry>* timeline = nullptr;  ///< receives the timeline of a step, if someone wants to see it

  Lane lane(Lane wanted) const {
    if (knobs.streams == 1) return Lane::compute;
    const bool has_own = wanted == Lane::reduce ? knobs.streams >= 3 : wanted == Lane::copy ? knobs.streams >= 4 : true;
    return has_own ? wanted : Lane::gather;
  }
};

/// A rank's piece of the trained fp32 parameters: `values` are those of the unit's padded vector from `begin` on.
struct ThetaPiece {
  int unit;
  Dim begin, count;
  std::vector<float> values;
};

/// What a rank's step leaves on the host.
struct StepReport {
  std::vector<float> loss;    ///< one number
  std::vector<float> scaler;  ///< with loss scaling: {scale, good steps, updates} after the step
};

class Scheme {
 public:
  virtual ~Scheme() = default;
  /// Once, before the first step: allocates and fills the bands.
  virtual void bind(Rank&) = 0;
  /// One training step; the report is valid after the device's next synchronize.
  virtual void run_step(int step, StepReport&) = 0;
  /// After the last step: downloads what this rank owns of the fp32 parameters. Blocks.
  virtual std::vector<ThetaPiece> theta() = 0;
  virtual const std::vector<Unit>& units() const = 0;
  virtual const Mesh& mesh() const = 0;
  /// Which bands a rank keeps only its slice of: the input of the closed forms.
  virtual ShardSet shard() const = 0;
  /// How many ranks share one copy of that: all, or mesh.shards of the scenario in a scheme of several copies. Before bind, too.
  virtual int sharers(const Knobs&, int world) const { return world; }
  /// Whether all ranks issue the same ops of the same sizes, in groups of the mesh alone: they then need not be compared one by one
  /// before equal ones are simulated as one. Asked after bind.
  virtual bool is_even() const { return false; }
  /// Whether the textbook's closed forms speak of it. A real system has buffers and orders of its own.
  virtual bool has_closed_forms() const { return true; }
};

}  // namespace shardsim
