// What the host asks of the card: an op, or the numbers of a collective whose members share it.
#pragma once
#include <span>

#include "backends/cuda/stream.h"
#include "core/fabric.h"

namespace shardsim::cuda {

/// Enqueues the op's kernels.
void run(Stream&, const Op&);
/// Enqueues the moving of a collective's numbers between the members' buffers, all of them on this card, in the ring's order.
/// `poisons`: the foreign slices of an in-place reduce-scatter become NaN.
void move_in_ring_order(Stream&, std::span<const Collective> members, bool poisons);

}  // namespace shardsim::cuda
