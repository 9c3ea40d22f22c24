// The closed forms: what the textbook says a scheme moves, holds and needs, printed beside the simulated figures. Of these only
// sent_bytes is also used to simulate: the fabrics `coupled` and `formula` bill what `ring` counts from its messages.
#pragma once
#include <cstdint>

#include "core/band.h"
#include "core/stream.h"

namespace shardsim::formulas {

/// Bytes that one of n ranks sends in a collective over a whole buffer of `bytes`: (n-1)/n of it, twice for an all-reduce; all of
/// it, for a reduce or broadcast and n > 1. What an average member sends, if n does not divide the elements, and any member but
/// the last of a rooted one: the basis of all prices.
double sent_bytes(Verb, int n, double bytes);

/// Elements of chunk c of n, as a ring cuts `count` of them: from floor(c count / n) to floor((c+1) count / n).
std::int64_t chunk_elements(int n, int c, std::int64_t count);
/// Bytes that member `me` of n sends, to the byte, over `count` elements of `width` bytes: every chunk but its own, and in an
/// all-reduce, which sends the sums around, too, every chunk but its right neighbour's.
std::int64_t sent_bytes(Verb, int n, int me, std::int64_t count, std::int64_t width);

/// Of a reduce or broadcast: `count` elements, but nothing by the member that the chain ends at.
std::int64_t sent_bytes_rooted(Verb, int n, int me, int root, std::int64_t count, std::int64_t width);

/// A reduce or broadcast goes from member to member in pieces of at most 1 MiB, the slice that NCCL's protocol Simple hands on
/// (2 of the 8 steps of its buffer of 4 MiB per channel; src/include/device.h).
std::int64_t pieces(std::int64_t bytes);
/// What the last member of the chain waits longer for its first piece than for one of a chain without length, latencies apart: n-2
/// pieces, in bytes.
double filling_bytes(int n, std::int64_t bytes);

/// Seconds of a ring collective on equal edges: 2(n-1) steps (n-1 unless all-reduce), each a chunk of bytes/n at `bandwidth` (bytes
/// per second) plus the edge's latency. Of a reduce or broadcast: n-1 latencies, and its pieces one after the other.
double ring_seconds(Verb, int n, double bytes, double bandwidth, double latency);

/// Traffic of a step in units of (n-1)/n x parameters x bytes of a parameter, with `accumulation` micro-batches A:
/// dp 2, zero1 2, zero2 A+1, zero3 3A. Gradients move in `reduce`'s width, parameters in `param`'s. With S = n / R shards in each
/// of R replicas, the sharded part moves (S-1)/S instead of (n-1)/n, and the replicas' all-reduce adds 2(R-1)/(RS).
double traffic_units(ShardSet, const Precision&, int accumulation, int n, int shards);

/// Bytes per parameter that one of n shards holds between steps (gradients included if resident).
double resident_bytes(ShardSet, const Precision&, int n, bool grads_resident);

/// Peak bytes per parameter as the founding prototype's table counts them: resident, plus one gathered fp32 copy (4 bytes) where
/// the parameters are sharded. An honest ledger differs; see README.
double table_peak_bytes(ShardSet, const Precision&, int n, bool grads_resident);

}  // namespace shardsim::formulas
