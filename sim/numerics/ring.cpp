// Moving the numbers of a collective in the ring's order.
#include "numerics/ring.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/error.h"
#include "numerics/host.h"
#include "numerics/real.h"

namespace shardsim::numerics {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// The sum of the members' part(member), from member c+1 around to member c.
template <class Part>
std::vector<float> summed(std::span<const Collective> members, int c, const Part& part) {
  const int n = int(members.size());
  const Chunk first = part(members[(c + 1) % n]);
  std::vector<float> sum(first.at, first.at + first.count);
  for (int hop = 2; hop <= n; ++hop) {
    const Chunk next = part(members[(c + hop) % n]);
    check_agree(next.count, first.count);
    add_hop(members[0].from.dtype(), next.at, sum.data(), first.count);
  }
  return sum;
}

}  // namespace

Chunk chunk(const Collective& collective, int c) {
  const Dim begin = collective.border(c);
  return all_of(collective.whole().slice(begin, collective.border(c + 1) - begin));
}

Chunk received_chunk(const Collective& collective, int m) { return all_of(collective.received(m)); }

Chunk piece(const Tensor& tensor, std::int64_t i, std::int64_t k) {
  const Dim all = tensor.count(), begin = all.share(int(i), int(k));
  return all_of(tensor.slice(begin, all.share(int(i) + 1, int(k)) - begin));
}

Chunk all_of(const Tensor& tensor) {
  const std::int64_t count = Real::of(tensor.count());
  return {count == 0 ? nullptr : data(tensor), count};
}

void check_agree(std::int64_t count, std::int64_t others) {
  if (count != others) throw IllegalStep("the ranks of a collective have buffers or borders of different real sizes");
}

void add_hop(Dtype type, const float* mine, float* sum, std::int64_t count) {
  with_rounding(type, [&](auto round) {
    for (std::int64_t i = 0; i < count; ++i) sum[i] = round(mine[i] + sum[i]);
  });
}

void store(const float* from, std::int64_t count, Chunk to) {
  check_agree(count, to.count);
  if (from != to.at && count > 0) std::copy_n(from, count, to.at);
}

void poison_foreign_slices(const Collective& collective) {
  const int n = collective.group.size;
  if (collective.from.in != collective.to.in) return;
  for (int c = 0; c < n; ++c) {
    if (c == collective.group.me) continue;
    const Chunk foreign = chunk(collective, c);
    std::fill_n(foreign.at, foreign.count, nan);
  }
}

void move_in_ring_order(std::span<const Collective> members) {
  const int n = int(members.size()), root = members[0].root;
  const Verb verb = members[0].verb;
  if (verb == Verb::reduce) {
    const std::vector<float> sum = summed(members, root, [](const Collective& of) { return all_of(of.from); });
    return store(sum.data(), std::int64_t(sum.size()), all_of(members[root].to));
  }
  if (verb == Verb::broadcast) {
    const Chunk all = all_of(members[root].from);
    for (const Collective& member : members) store(all.at, all.count, all_of(member.to));
    return;
  }
  for (int c = 0; c < n; ++c) {
    if (verb == Verb::all_to_all) {
      for (int r = 0; r < n; ++r) {
        const Chunk sent = chunk(members[r], c);
        store(sent.at, sent.count, received_chunk(members[c], r));
      }
    } else if (verb == Verb::all_gather) {
      const Chunk part = all_of(members[c].from);
      for (int r = 0; r < n; ++r) store(part.at, part.count, chunk(members[r], c));
    } else {
      const std::vector<float> sum = summed(members, c, [c](const Collective& of) { return chunk(of, c); });
      const std::int64_t count = std::int64_t(sum.size());
      if (verb == Verb::reduce_scatter) store(sum.data(), count, all_of(members[c].to));
      for (int r = 0; verb == Verb::all_reduce && r < n; ++r) store(sum.data(), count, chunk(members[r], c));
    }
  }
  if (verb == Verb::reduce_scatter)
    for (const Collective& member : members) poison_foreign_slices(member);
}

}  // namespace shardsim::numerics
