// The closed forms: what the textbook says a scheme moves, holds and needs, printed beside the simulated figures. Of these only
// sent_bytes is also used to simulate: the fabrics `coupled` and `formula` bill what `ring` counts from its messages.
#pragma once
#include <cstdint>

#include "core/band.h"
#include "core/stream.h"

namespace shardsim::formulas {

/// Bytes that one of n ranks sends in a ring collective over a whole buffer of `bytes`: (n-1)/n of it, twice for an all-reduce.
/// What an average member sends, if n does not divide the elements: the basis of all prices.
double sent_bytes(Verb, int n, double bytes);

/// Elements of chunk c of n, as a ring cuts `count` of them: from floor(c count / n) to floor((c+1) count / n).
std::int64_t chunk_elements(int n, int c, std::int64_t count);
/// Bytes that member `me` of n sends, to the byte, over `count` elements of `width` bytes: every chunk but its own, and in an
/// all-reduce, which sends the sums around, too, every chunk but its right neighbour's.
std::int64_t sent_bytes(Verb, int n, int me, std::int64_t count, std::int64_t width);

/// Seconds of a ring collective on equal edges: 2(n-1) steps (n-1 unless all-reduce), each a chunk of bytes/n at `bandwidth` (bytes
/// per second) plus the edge's latency.
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
