// Ops that have nothing to do.
#pragma once
#include "core/touch.h"

namespace shardsim {

/// Whether an op is about no elements, as the filling of a padding that is none: it is no launch on a GPU, and no span.
inline bool does_nothing(const Op& op) {
  bool nothing = true;
  const auto look = [&](const Tensor& t, bool, bool) { nothing = nothing && t.count().charged() == 0; };
  std::visit([&](const auto& o) { touch(o, look); }, op);
  return nothing;
}

}  // namespace shardsim
