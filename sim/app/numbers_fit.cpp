// Whether the numbers of a run fit into this machine's memory, before any are made.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>

#include "app/run.h"
#include "app/scenario_model.h"
#include "core/error.h"

namespace shardsim {
namespace {

/// What the arithmetic has: parameters, and the activations that a rank keeps at least, one per row (token) and layer.
struct Numbers {
  double parameters = 0, activations = 0;
};
Numbers numbers_of(const Scenario& scenario) {
  if (scenario.numerics == Numerics::off) return {};
  const double rows = double(scenario.micro_batch);
  if (scenario.transformer) {
    const TransformerShape shape = real_shape(scenario);
    return {double(parameters(shape)), rows * double(real_sequence(scenario)) * double(shape.hidden) * (shape.layers + 1)};
  }
  Numbers numbers;
  const std::vector<std::int64_t>& widths = scenario.model.widths;
  const std::int64_t most = scenario.numerics == Numerics::twin ? scenario.twin_width : std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i + 1 < widths.size(); ++i)
    numbers.parameters += double(std::min(widths[i], most) + 1) * double(std::min(widths[i + 1], most));
  for (const std::int64_t width : widths) numbers.activations += rows * double(std::min(width, most));
  return numbers;
}

}  // namespace

void check_that_numbers_fit(const Scenario& scenario, const SchemeChoice& choice) {
  if (scenario.backend == "cuda") return;  // they are not here
  const std::unique_ptr<Scheme> scheme = choice.make();
  const ShardSet shard = scheme->shard();
  const double shards = std::max(1, scheme->sharers(scenario.knobs, scenario.world));
  double floats = 0;
  for (const Band band : {Band::param, Band::grad, Band::opt})
    floats += (band == Band::opt ? scenario.knobs.precision.opt_vectors() : 1) / (shard.has(band) ? shards : 1.0);
  const Numbers numbers = numbers_of(scenario);
  const double needed = 4 * (floats * numbers.parameters + numbers.activations) * scenario.world;
  const double there = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGESIZE));
  if (needed <= there) return;
  char text[160];
  std::snprintf(text, sizeof text, "the numbers of %d ranks are at least %.1f GiB for %s, and this machine has %.1f GiB",
                scenario.world, needed / 0x1p30, choice.label.c_str(), there / 0x1p30);
  throw ScenarioError(scenario.file.string() + ": numerics: " + text + "; use numerics: off, a twin or a smaller batch");
}

}  // namespace shardsim
