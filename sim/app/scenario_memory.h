// The part of a scenario that says where memory comes from: `memory:`, the allocator with its options and what is held outside of
// it.
#pragma once
#include <string>
#include <vector>

#include "app/fields.h"
#include "app/scenario.h"

namespace shardsim {

/// Fills memory. Context, communicators and workspaces have defaults with PyTorch's allocator only; an exact run has none of them
/// unless they are given.
void read_memory(const Fields& root, Scenario&, std::vector<std::string>& defaults);

}  // namespace shardsim
