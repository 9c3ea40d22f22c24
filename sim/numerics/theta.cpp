// Putting theta together: each piece lies somewhere in a unit's padded vector; the padding is left behind.
#include "numerics/theta.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/error.h"
#include "numerics/real.h"

namespace shardsim::numerics {

std::vector<float> assembled_theta(const std::vector<Unit>& units, const std::vector<std::vector<ThetaPiece>>& of_ranks) {
  std::int64_t total = 0;
  for (const Unit& unit : units) total += Real::of(unit.count);
  std::vector<float> theta(std::size_t(total), 0.f);
  std::vector<int> owner(std::size_t(total), -1);
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank)
    for (const ThetaPiece& piece : of_ranks[rank]) {
      const Unit& unit = units[piece.unit];
      const std::int64_t begin = Real::of(piece.begin);
      const std::int64_t count = std::min(std::int64_t(piece.values.size()), Real::of(unit.count) - begin);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::size_t at = std::size_t(Real::of(unit.begin) + begin + i);
        if (owner[at] >= 0 && std::memcmp(&theta[at], &piece.values[i], sizeof(float)) != 0)
          throw IllegalStep("after the last step rank " + std::to_string(owner[at]) + " and rank " + std::to_string(rank) +
                            " hold different parameters of unit " + std::to_string(piece.unit) +
                            "; every update needs the gradient of all ranks");
        owner[at] = int(rank);
        theta[at] = piece.values[i];
      }
    }
  return theta;
}

}  // namespace shardsim::numerics
