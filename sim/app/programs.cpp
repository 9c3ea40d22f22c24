// Programs: whether a scenario can be folded, and the trial of its ranks' programs.
#include "app/programs.h"

#include <optional>

#include "app/score.h"
#include "core/error.h"

namespace shardsim {
namespace {

/// Of a scheme that says it is even, which the last rank bears witness to: every rank's groups are where rank 0's are in its mesh.
void add_even(const Scenario& scenario, const std::string& scheme, const Program& first, const Program& last, Programs& programs) {
  try {
    first.check_same(last, scenario.world - 1);
  } catch (const IllegalStep& error) {
    throw IllegalStep("scheme '" + scheme + "': " + error.what());
  }
  programs.of_rank.assign(std::size_t(scenario.world), first.digest);
  for (int rank = 0; rank < scenario.world; ++rank)
    programs.groups.push_back(first.groups_at(Mesh::of(rank, scenario.world, first.mesh->shards.size)));
}

std::string refusal(const Scenario& scenario) {
  if (scenario.numerics != Numerics::off) return "with numerics every rank has a loss of its own; write numerics: off";
  if (scenario.fabric == Fidelity::ring) return "fabric: ring sends every rank's messages; write coupled or formula";
  if (!scenario.simgrid_tracing.empty()) return "SimGrid's tracing wants every rank";
  return {};
}

}  // namespace

FoldingPlan plan_folding(const Scenario& scenario, const TrainingSet& set, const SchemeChoice& choice) {
  if (scenario.folds == Folds::all) return {};
  const auto no = [&](const std::string& why) -> FoldingPlan {
    if (scenario.folds == Folds::folded)
      throw ScenarioError(scenario.file.string() + ": ranks: folded: " + choice.label + ": " + why + ", or ranks: all");
    return {nullptr, why};
  };
  if (const std::string why = refusal(scenario); !why.empty()) return no(why);
  const auto programs = std::make_shared<Programs>();
  const Original original = original_of(scenario, set, choice);
  std::optional<Program> first, last;
  try {
    first = program_of(original, 0, scenario.steps);
    if (first->mesh) last = program_of(original, scenario.world - 1, scenario.steps);
    for (int rank = 0; rank < scenario.world && !first->mesh; ++rank) {
      Program program = rank == 0 ? std::move(*first) : program_of(original, rank, scenario.steps);
      programs->of_rank.push_back(program.digest);
      programs->groups.push_back(std::move(program.groups));
    }
  } catch (...) {  // whatever came out of a scheme
    return {};     // the run tells it, with its step and its rank
  }
  if (first->mesh) add_even(scenario, choice.label, *first, *last, *programs);
  return {programs, {}};
}

}  // namespace shardsim
