// Moving the numbers of a collective in the ring's order.
#include "numerics/ring.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "numerics/host.h"
#include "numerics/real.h"

namespace shardsim::numerics {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

void copy(const float* from, float* to, std::int64_t count) {
  if (from != to && count > 0) std::copy_n(from, count, to);
}

/// The sum of chunk c, from member c+1 around to member c.
std::vector<float> summed(std::span<const Collective> members, int c) {
  const int n = int(members.size());
  const Chunk first = chunk(members[(c + 1) % n].from, n, c);
  std::vector<float> sum(first.at, first.at + first.count);
  for (int hop = 2; hop <= n; ++hop)
    add_hop(members[0].from.dtype(), chunk(members[(c + hop) % n].from, n, c).at, sum.data(), first.count);
  return sum;
}

}  // namespace

Chunk chunk(const Tensor& whole, int n, int c) {
  const std::int64_t count = Real::of(whole.count()) / n;
  return {count == 0 ? nullptr : data(whole) + c * count, count};
}

void add_hop(Dtype type, const float* mine, float* sum, std::int64_t count) {
  with_rounding(type, [&](auto round) {
    for (std::int64_t i = 0; i < count; ++i) sum[i] = round(mine[i] + sum[i]);
  });
}

void poison_foreign_slices(const Collective& collective) {
  const int n = collective.group.size;
  if (collective.from.in != collective.to.in) return;
  for (int c = 0; c < n; ++c) {
    if (c == collective.group.me) continue;
    const Chunk foreign = chunk(collective.from, n, c);
    std::fill_n(foreign.at, foreign.count, nan);
  }
}

void move_in_ring_order(std::span<const Collective> members) {
  const int n = int(members.size());
  const Verb verb = members[0].verb;
  for (int c = 0; c < n; ++c) {
    if (verb == Verb::all_gather) {
      const std::int64_t count = Real::of(members[c].from.count());
      if (count == 0) continue;
      for (int r = 0; r < n; ++r) copy(data(members[c].from), chunk(members[r].to, n, c).at, count);
    } else {
      const std::vector<float> sum = summed(members, c);
      if (sum.empty()) continue;
      if (verb == Verb::reduce_scatter) copy(sum.data(), data(members[c].to), std::int64_t(sum.size()));
      for (int r = 0; verb == Verb::all_reduce && r < n; ++r)
        copy(sum.data(), chunk(members[r].to, n, c).at, std::int64_t(sum.size()));
    }
  }
  if (verb == Verb::reduce_scatter)
    for (const Collective& member : members) poison_foreign_slices(member);
}

}  // namespace shardsim::numerics
