// Share: what one process has of a run when its ranks have ended, and the whole that the shares of all processes make.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "app/result.h"

namespace shardsim {

struct Share {
  SchemeResult result;                         ///< of these ranks, without theta; seconds as the backend counts them
  std::vector<Unit> units;                     ///< of rank 0
  std::vector<std::vector<ThetaPiece>> theta;  ///< by rank; empty without numerics
};

/// Which ranks of a run this process has, and how the shares of all processes come together.
struct Crew {
  int first = 0, ranks = 0;
  /// Called by each process with its own bytes; the first gets all, in the order of their ranks, the others nothing.
  std::function<std::vector<std::string>(std::string)> gather = {};
};

/// Seconds then begin with the earliest rank's first step, and theta is put together. What is the same of all ranks, and what is
/// told of rank 0 alone, is the first share's. Throws IllegalStep: ranks hold different parameters.
SchemeResult whole_of(std::vector<Share>);
/// The same of all processes' shares, on the first of them; on the others a result without ranks.
SchemeResult whole_of(Share own, const Crew&);

}  // namespace shardsim
