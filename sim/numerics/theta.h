// Theta: the trained parameters put together from what the ranks own.
#pragma once
#include <vector>

#include "core/scheme.h"

namespace shardsim::numerics {

/// Model order, without padding. Pieces that several ranks own have to have the same bits; otherwise throws IllegalStep naming the
/// ranks and the unit.
std::vector<float> assembled_theta(const std::vector<Unit>&, const std::vector<std::vector<ThetaPiece>>& of_ranks);

}  // namespace shardsim::numerics
