// The parts of a scenario that say how it trains: precision and loss scaling, optimizer and schedule, mesh.
#pragma once
#include <string>
#include <vector>

#include "app/fields.h"
#include "app/scenario.h"

namespace shardsim {

/// Fills precision and loss scaling.
void read_precision(const Fields& root, Knobs&, std::vector<std::string>& defaults);
/// Fills Adam, its schedule and clipping.
void read_optimizer(const Fields& root, Knobs&, std::vector<std::string>& defaults);
/// Fills the shards of `mesh: {replicas: R, shards: S}`; R x S has to be the world.
void read_mesh(const Fields& root, Scenario&);

}  // namespace shardsim
