// Prediction: what the simulator says about one row of a table of measurements: runs of the row's scenario, never a closed form.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "app/measurement_table.h"
#include "core/registry.h"

namespace shardsim {

struct Prediction {
  double seconds = 0;           ///< of what the table measures
  double idle = 0;              ///< share of the step in which the GPU waits for the host: neither computes nor communicates
  double peak = 0, states = 0;  ///< most bytes ever held, and of model states (parameters, gradients, optimizer, gathered), as
                                ///< shares of the capacity
  double attention_64 = 0, attention_128 = 0;  ///< the GPU's attention speeds, flop/s; 0: none
  std::int64_t bytes = 0;                      ///< of the collective's buffer, where one is measured
  int world = 1;
  bool shards_parameters = false;

  bool is_host_bound() const { return idle > 0.05; }
  /// A caching allocator frees and retries there, and steps take up to a third longer.
  bool is_near_memory_limit() const { return states > 0.6; }
};

/// The row's overrides on the table's base scenario, then `more`. A step of more than three micro-batches is two runs, of two and
/// of three: what a micro-batch adds from the third on is the same each time. Throws ScenarioError that names the row's file and
/// line.
Prediction predict(const MeasurementTable&, const MeasuredRow&, const std::vector<std::string>& more, const Registry&);

/// The step of the row's scenario, all micro-batches run: what predict's two runs stand for.
double run_whole(const MeasurementTable&, const MeasuredRow&, const std::vector<std::string>& more, const Registry&);

}  // namespace shardsim
