// The closed forms.
#include "core/formulas.h"

namespace shardsim::formulas {

double sent_bytes(Verb verb, int n, double bytes) { return (verb == Verb::all_reduce ? 2.0 : 1.0) * bytes * (n - 1) / n; }

double ring_seconds(Verb verb, int n, double bytes, double bandwidth, double latency) {
  const double steps = (verb == Verb::all_reduce ? 2.0 : 1.0) * (n - 1);
  return steps * (bytes / n / bandwidth + latency);
}

double traffic_units(ShardSet shard, const Precision& precision, int accumulation) {
  const double gradient = double(bytes_of(precision.reduce)) / double(bytes_of(precision.param));
  if (shard.has(Band::param)) return accumulation * (2 + gradient);
  if (shard.has(Band::grad)) return accumulation * gradient + 1;
  return shard.has(Band::opt) ? gradient + 1 : 2 * gradient;
}

double resident_bytes(ShardSet shard, const Precision& precision, int n, bool grads_resident) {
  double sum = 0;
  for (Band band : {Band::param, Band::grad, Band::opt}) {
    if (band == Band::grad && !grads_resident) continue;
    sum += double(precision.bytes_per_parameter(band)) / (shard.has(band) ? n : 1);
  }
  return sum;
}

double table_peak_bytes(ShardSet shard, const Precision& precision, int n, bool grads_resident) {
  return resident_bytes(shard, precision, n, grads_resident) + (shard.has(Band::param) ? 4.0 : 0.0);
}

}  // namespace shardsim::formulas
