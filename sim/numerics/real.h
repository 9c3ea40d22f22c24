// Real: the only way to the real size of a Dim. Included by numerics and by the backends' storage, by nobody else (a test checks).
#pragma once
#include "core/dim.h"

namespace shardsim {

struct Real {
  static constexpr std::int64_t of(Dim dim) { return dim.real_; }
};

}  // namespace shardsim
