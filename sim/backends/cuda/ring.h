// Kernels of loopback collectives: every element is summed over the members' buffers in the ring's order, rounded to the buffer's
// type at every hop. The bits are those of numerics/ring.cpp.
#pragma once
#include <span>

#include "backends/cuda/executor.h"
#include "core/fabric.h"

namespace shardsim::cuda {

/// The same stretch of every member's buffer.
struct Stretch {
  static constexpr int most = 64;  ///< members: they travel as a kernel's argument
  void* at[most];
  int members;
  Dtype type;
  std::int64_t count;
  SHARDSIM_BOTH Numbers of(int member) const { return {at[member], type, count}; }
};

/// `part(member)` is that member's Numbers.
template <class Part>
Stretch stretch(std::span<const Collective> members, Part part) {
  Stretch all{{}, int(members.size()), Dtype::fp32, 0};
  for (int m = 0; m < all.members; ++m) {
    const Numbers numbers = part(members[std::size_t(m)]);
    all.at[m] = numbers.at, all.type = numbers.type, all.count = numbers.count;
  }
  return all;
}

/// Chunk c of a collective's whole buffer.
inline Numbers chunk(const Collective& collective, int c) {
  const Dim begin = collective.border(c);
  return numbers(collective.whole().slice(begin, collective.border(c + 1) - begin));
}

/// Member `last`'s sum of pack p: from member last + 1 around to itself.
SHARDSIM_BOTH inline Pack ring_sum(const Stretch& all, int last, std::int64_t p) {
  Pack sum = load(all.of((last + 1) % all.members), p, all.count);
  for (int hop = 2; hop <= all.members; ++hop) {
    const Pack next = load(all.of((last + hop) % all.members), p, all.count);
    for (int i = 0; i < Pack::size; ++i) sum.x[i] = rounded(all.type, next.x[i] + sum.x[i]);
  }
  return sum;
}

template <class On>
void reduce_to(On& on, const Stretch& all, int last, const Numbers& to) {
  if (all.members == 1) return on.copy(all.of(0), to, all.count);
  on.each(packs_of(all.count), [=] SHARDSIM_BOTH(std::int64_t p) { save(to, p, all.count, ring_sum(all, last, p)); });
}

template <class On>
void move_in_ring_order(On& on, std::span<const Collective> members, bool poisons) {
  const int n = int(members.size()), root = members[0].root;
  const Verb verb = members[0].verb;
  if (verb == Verb::reduce) {
    const Stretch all = stretch(members, [](const Collective& of) { return numbers(of.from); });
    return reduce_to(on, all, root, numbers(members[std::size_t(root)].to));
  }
  if (verb == Verb::broadcast) {
    const Numbers from = numbers(members[std::size_t(root)].from);
    for (const Collective& member : members) on.copy(from, numbers(member.to), from.count);
    return;
  }
  for (int c = 0; c < n; ++c) {
    const Collective& owner = members[std::size_t(c)];
    if (verb == Verb::all_to_all) {
      for (const Collective& member : members) {
        const Numbers sent = chunk(member, c);
        on.copy(sent, numbers(owner.received(member.group.me)), sent.count);
      }
      continue;
    }
    if (verb == Verb::all_gather) {
      const Numbers part = numbers(owner.from);
      for (const Collective& member : members) on.copy(part, chunk(member, c), part.count);
      continue;
    }
    const Stretch all = stretch(members, [c](const Collective& of) { return chunk(of, c); });
    if (verb == Verb::reduce_scatter) {
      reduce_to(on, all, c, numbers(owner.to));
    } else if (n > 1) {
      on.each(packs_of(all.count), [=] SHARDSIM_BOTH(std::int64_t p) {
        const Pack sum = ring_sum(all, c, p);
        for (int m = 0; m < all.members; ++m) save(all.of(m), p, all.count, sum);
      });
    }
  }
  if (verb != Verb::reduce_scatter || !poisons) return;
  for (const Collective& member : members)
    for (int c = 0; member.from.in == member.to.in && c < n; ++c)
      if (c != member.group.me) {
        const Numbers foreign = chunk(member, c);
        map(on, foreign, foreign.count, [] SHARDSIM_BOTH() { return float_of_bits(0x7fc00000u); });
      }
}

}  // namespace shardsim::cuda
