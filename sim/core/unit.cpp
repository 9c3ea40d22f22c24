// Cutting a model into units.
#include "core/unit.h"

#include <algorithm>

namespace shardsim {

std::vector<Unit> cut(const Model& model, Cut how, int world, std::int64_t bytes_per_gradient) {
  std::vector<Unit> units;
  for (int module = model.modules() - 1; module >= 0; --module) {
    const bool open =
        !units.empty() && (how.kind == Cut::Kind::whole ||
                           (how.kind == Cut::Kind::bucket && units.back().count.charged() * bytes_per_gradient < how.bucket_bytes));
    if (!open) units.push_back({module + 1, module + 1, none, none, none});
    units.back().first = module;
    units.back().count = units.back().count + count_of(model.layout(module));
  }
  std::reverse(units.begin(), units.end());
  Dim begin;
  for (Unit& unit : units) {
    unit.begin = begin;
    unit.padded = unit.count.padded_to(world);
    begin = begin + unit.count;
  }
  return units;
}

std::vector<Turn> turns(const Model& model, const std::vector<Unit>& units) {
  std::vector<Turn> turns;
  for (int visit = 0; visit < int(model.visits().size()); ++visit) {
    const int module = model.visits()[visit];
    int unit = 0;
    while (module >= units[unit].last) ++unit;
    if (turns.empty() || turns.back().unit != unit) turns.push_back({unit, visit, visit});
    turns.back().last = visit + 1;
  }
  return turns;
}

}  // namespace shardsim
