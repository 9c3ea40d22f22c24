// The closed forms.
#include "core/formulas.h"

#include <algorithm>

#include "core/dim.h"

namespace shardsim::formulas {

double sent_bytes(Verb verb, int n, double bytes) {
  if (is_rooted(verb)) return n > 1 ? bytes : 0;
  return (verb == Verb::all_reduce ? 2.0 : 1.0) * bytes * (n - 1) / n;
}

std::int64_t chunk_elements(int n, int c, std::int64_t count) {
  const Dim all(count, 0);
  return (all.share(c + 1, n) - all.share(c, n)).charged();
}

std::int64_t sent_bytes(Verb verb, int n, int me, std::int64_t count, std::int64_t width) {
  const std::int64_t first_round = count - chunk_elements(n, me, count);
  const std::int64_t second_round = verb == Verb::all_reduce ? count - chunk_elements(n, (me + 1) % n, count) : 0;
  return (first_round + second_round) * width;
}

std::int64_t sent_bytes_rooted(Verb verb, int n, int me, int root, std::int64_t count, std::int64_t width) {
  const int last = verb == Verb::reduce ? root : (root + n - 1) % n;
  return me == last ? 0 : count * width;
}

std::int64_t pieces(std::int64_t bytes) {
  constexpr std::int64_t most = 1 << 20;
  return std::max<std::int64_t>(1, (bytes + most - 1) / most);
}

double filling_bytes(int n, std::int64_t bytes) { return n < 2 ? 0 : double(n - 2) * double(bytes) / double(pieces(bytes)); }

double ring_seconds(Verb verb, int n, double bytes, double bandwidth, double latency) {
  if (is_rooted(verb)) return n < 2 ? 0 : (n - 1) * latency + (bytes + filling_bytes(n, std::int64_t(bytes))) / bandwidth;
  const double steps = (verb == Verb::all_reduce ? 2.0 : 1.0) * (n - 1);
  return steps * (bytes / n / bandwidth + latency);
}

double traffic_units(ShardSet shard, const Precision& precision, int accumulation, int n, int shards) {
  if (n == 1) return 0;
  const double gradient = double(bytes_of(precision.reduce)) / double(bytes_of(precision.param));
  if (shard.empty()) return 2 * gradient;
  const double passes = shard.has(Band::param)  ? accumulation * (2 + gradient)
                        : shard.has(Band::grad) ? accumulation * gradient + 1
                                                : gradient + 1;
  const double s = shards, replicas = double(n) / s;
  return (passes * (s - 1) / s + 2 * gradient * (replicas - 1) / (replicas * s)) / ((n - 1.0) / n);
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
