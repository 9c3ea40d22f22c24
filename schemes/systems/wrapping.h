// wrapping: which modules PyTorch's users give a unit of their own (FSDP's auto_wrap_policy; fully_shard, block by block).
#pragma once
#include <cstdint>
#include <vector>

#include "core/model.h"

namespace shardsim {

/// The modules with a unit of their own, in the model's order, the root last. A parameter belongs to the nearest of them.
using Wrapped = std::vector<int>;

/// Every child of the root that contains modules; where there are none, every child.
Wrapped wrapped_by_block(const std::vector<ModuleNode>&);
/// From the leaves up: what has at least so many parameters that no module inside of it has taken. `counts` by parameter.
/// Source: PyTorch's torch/distributed/fsdp/wrap.py, size_based_auto_wrap_policy.
Wrapped wrapped_by_size(const std::vector<ModuleNode>&, const std::vector<std::int64_t>& counts, std::int64_t min_num_params);

/// For each module, its place in `wrapped`, or -1.
std::vector<int> places_of(const Wrapped& wrapped, std::size_t modules);
/// The unit that a module's own parameters belong to.
int unit_around(int module, const std::vector<ModuleNode>&, const std::vector<int>& places);

}  // namespace shardsim
