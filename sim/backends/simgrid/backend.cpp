// SimgridBackend: an actor per rank, and the engine's run.
#include "backends/simgrid/backend.h"

#include <malloc.h>

#include <simgrid/Exception.hpp>
#include <simgrid/plugins/load.h>
#include <simgrid/s4u.hpp>

#include <algorithm>
#include <stdexcept>

#include "backends/simgrid/fabric.h"
#include "backends/simgrid/platform.h"
#include "core/error.h"
#include "numerics/host.h"

namespace shardsim {

using namespace simgrid_backend;
namespace sg = simgrid::s4u;

struct SimgridBackend::Run {
  World world;
  Platform platform;
  std::unique_ptr<Network> network;
  std::vector<std::unique_ptr<SimDevice>> devices;  // by rank; null: another stands for it
  bool deadlocked = false;
};

SimgridBackend::SimgridBackend(SimgridSettings settings) : settings_(std::move(settings)) {}
SimgridBackend::~SimgridBackend() = default;

void SimgridBackend::run(int world, const Body& body) {
  numerics::fix_blocking();
  run_ = std::make_unique<Run>();
  Run& run = *run_;
  // The actors' stacks lie in the heap, whose small blocks fill the gaps between them. Both are what glibc would come to itself.
  mallopt(M_MMAP_THRESHOLD, 32 << 20), mallopt(M_TRIM_THRESHOLD, 64 << 20);
  run.platform = load_platform(settings_, world);
  if (has_jitter() && !settings_.folds_jitter) settings_.programs = nullptr;
  run.network = std::make_unique<Network>(run.world, run.platform, settings_);
  choose_recorded_ranks(world);
  sg::Engine::on_deadlock_cb([&run] { run.deadlocked = true; });
  run.devices.resize(std::size_t(world));
  std::map<int, Jitter> jitters;  // of those that are simulated
  for (int rank = 0; rank < world; ++rank) {
    Jitter& jitter = jitters[representative(rank)];
    if (run.platform.gpus[rank]->jitter == 0) continue;
    const std::string& node = run.platform.nodes[rank];  // a GPU of which it is not known is a node of its own
    jitter.add(settings_.seed, node.empty() ? "rank " + std::to_string(rank) : node);
  }
  for (const auto& [rank, jitter] : jitters) {
    run.devices[rank] = std::make_unique<SimDevice>(run.world, rank, *run.platform.gpus[rank], settings_, jitter);
    run.world.devices.push_back(run.devices[rank].get());
  }
  // A stack with a guard page takes two of the 65530 mappings that Linux gives a process, and a rank has up to four actors at once.
  // Without it, glibc clears what of a stack was in the heap's spare end: there should be none.
  constexpr std::size_t most_guarded = 4096;
  if (jitters.size() > most_guarded) sg::Engine::set_config("contexts/guard-size", 0), mallopt(M_TOP_PAD, 0);
  settings_.noted_rank = representative(settings_.noted_rank);
  run.devices[settings_.noted_rank]->note_prices(settings_.notes);
  for (const auto& [rank, jitter] : jitters) {
    sg::Actor::create("rank " + std::to_string(rank), run.platform.host_of(rank), [&run, &body, rank = rank] {
      try {
        SimDevice& device = *run.devices[rank];
        SimFabric fabric(device, *run.network);
        body(device, fabric);
        fabric.finish();
        device.synchronize();
      } catch (const Aborted&) {  // another rank's error is the one to report
      } catch (const simgrid::ForcefulKillException&) {
        throw;
      } catch (...) {
        run.world.fail(std::current_exception());
      }
    });
  }
  sg::Engine::get_instance()->run();
  if (run.world.failed()) std::rethrow_exception(run.world.error());
  if (run.deadlocked) throw std::logic_error("the simulation stopped before all ranks had finished");
}

/// Of folded ranks only those are recorded that are simulated: the first n of them for the first n ranks.
void SimgridBackend::choose_recorded_ranks(int world) {
  if (!folds()) return;
  int wanted = 0;
  while (wanted < world && settings_.recorded_ranks.has(wanted)) ++wanted;
  if (settings_.recorded_ranks == RankSet(wanted)) {
    settings_.recorded_ranks = 0;
    for (int rank = 0; rank < world && wanted > 0; ++rank)
      if (representative(rank) == rank) settings_.recorded_ranks.add(rank, rank), --wanted;
    return;
  }
  int first = -1;  // that is to be recorded
  for (int rank = world - 1; rank >= 0; --rank) {
    if (!settings_.recorded_ranks.has(rank)) continue;
    if (representative(rank) == rank) return;
    first = rank;
  }
  if (first >= 0)
    throw ScenarioError("record.ranks: rank " + std::to_string(first) + " is not simulated, but folded into rank " +
                        std::to_string(representative(first)) + "; record that one, or write ranks: all");
}

bool SimgridBackend::folds() const { return run_->network->folding() != nullptr; }
bool SimgridBackend::has_jitter() const {
  return std::any_of(run_->platform.kinds.begin(), run_->platform.kinds.end(), [](const Gpu& gpu) { return gpu.jitter > 0; });
}
int SimgridBackend::representative(int rank) const {
  const Folding* folding = run_->network->folding();
  return folding ? folding->representative(rank) : rank;
}

const Device& SimgridBackend::device(int rank) const { return *run_->devices.at(representative(rank)); }
const Gpu& SimgridBackend::gpu(int rank) const { return *run_->platform.gpus.at(rank); }
std::vector<AllocatorEvent> SimgridBackend::allocator_history(int rank) const {
  return run_->devices.at(representative(rank))->allocator_history();
}
LinkBytes SimgridBackend::link_bytes() const { return run_->network->link_bytes(); }

std::map<std::string, double> SimgridBackend::metered_link_bytes() const {
  std::map<std::string, double> bytes;
  for (const sg::Link* link : sg::Engine::get_instance()->get_all_links())
    if (const double load = sg_link_get_cum_load(link); load > 0) bytes[link->get_name()] = load;
  return bytes;
}

}  // namespace shardsim
