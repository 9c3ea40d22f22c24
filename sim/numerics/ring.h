// The numbers of a collective, moved in the ring's order: chunk c is summed starting at member c+1 and ending at member c, rounded
// to the buffer's type at every hop; all of a reduce's buffer is its root's chunk. Shared by all host fabrics, which is why their
// bits agree. An all-to-all adds nothing up.
#pragma once
#include <span>

#include "core/fabric.h"

namespace shardsim::numerics {

/// One collective of all members, in member order. After a reduce-scatter in place the foreign slices are filled with NaN.
void move_in_ring_order(std::span<const Collective> members);

/// Some real floats of a buffer; `at` is null where there are none.
struct Chunk {
  float* at;
  std::int64_t count;
};
/// Chunk c of the collective's whole buffer.
Chunk chunk(const Collective&, int c);
/// Where an all-to-all puts what member m sends.
Chunk received_chunk(const Collective&, int m);
/// Piece i of k of a tensor: of a reduce or broadcast.
Chunk piece(const Tensor&, std::int64_t i, std::int64_t k);
/// All of a tensor.
Chunk all_of(const Tensor&);
/// Throws IllegalStep unless the members of a collective have equally many floats in a chunk.
void check_agree(std::int64_t count, std::int64_t others);
/// sum = rounded(mine + sum): one hop of a reduction.
void add_hop(Dtype, const float* mine, float* sum, std::int64_t count);
/// Copies into a chunk of equally many floats.
void store(const float* from, std::int64_t count, Chunk to);
/// Fills the foreign slices of an in-place reduce-scatter with NaN.
void poison_foreign_slices(const Collective&);

}  // namespace shardsim::numerics
