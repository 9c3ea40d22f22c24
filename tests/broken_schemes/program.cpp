// shardsim with the broken schemes instead of the built-in ones.
#include "app/program.h"
#include "schemes.h"

namespace shardsim {
namespace {

template <class S>
SchemeEntry entry(const char* name) {
  return {name, "broken", "", [](const Options&) -> std::unique_ptr<Scheme> { return std::make_unique<S>(); }};
}

}  // namespace
}  // namespace shardsim

int main(int argc, char** argv) {
  using namespace shardsim;
  using namespace shardsim::broken;
  Registry registry;
  for (const SchemeEntry& scheme :
       {entry<GathersOnce>("gathers_once"), entry<GathersAgainWithoutRelease>("gathers_again_without_release"),
        entry<ForwardsUngathered>("forwards_ungathered"), entry<BackwardsUngathered>("backwards_ungathered"),
        entry<UpdatesUnreduced>("updates_unreduced"), entry<ReleasesNothing>("releases_nothing"),
        entry<StaysGathered>("stays_gathered"),
        entry<NeverPublishes>("never_publishes"), entry<AllReducesShards>("all_reduces_shards"),
        entry<ScattersReplicas>("scatters_replicas"), entry<GathersReplicas>("gathers_replicas"),
        entry<ReducesTwice>("reduces_twice"),
        entry<HoardsGradients>("hoards_gradients"), entry<DropsAGradient>("drops_a_gradient"), entry<DoesNothing>("does_nothing"),
        entry<ForgetsToUpdate>("forgets_to_update"), entry<RunsBackwardFirst>("runs_backward_first"),
        entry<RunsForwardInReverse>("runs_forward_in_reverse"), entry<RunsWithoutData>("runs_without_data"),
        entry<NamesAUnitThatIsNone>("names_a_unit_that_is_none"), entry<OrdersByRank>("orders_by_rank"),
        entry<RepeatsOnOneRank>("repeats_on_one_rank"), entry<ReducesEveryMicroBatch>("reduces_every_micro_batch"),
        entry<ReducesTheLastOnly>("reduces_the_last_only"), entry<Throws>("throws"), entry<Crashes>("crashes"),
        entry<Hangs>("hangs")})
    registry.add(scheme);
  return run_program(argc, argv, registry);
}
