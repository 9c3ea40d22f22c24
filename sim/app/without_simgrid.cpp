// What stands in for the simgrid backend in a program that is built without SimGrid: one line that says so.
#if !SHARDSIM_SIMGRID
#include "backends/simgrid/backend.h"
#include "core/error.h"

namespace shardsim {
namespace {

[[noreturn]] void refuse() {
  throw ScenarioError("backend: simgrid: this program was built without SimGrid; use backend: threads or cuda");
}

}  // namespace

struct SimgridBackend::Run {};
SimgridBackend::SimgridBackend(SimgridSettings) { refuse(); }
SimgridBackend::~SimgridBackend() = default;
void SimgridBackend::run(int, const Body&) { refuse(); }
const Device& SimgridBackend::device(int) const { refuse(); }
int SimgridBackend::representative(int) const { refuse(); }
bool SimgridBackend::folds() const { refuse(); }
bool SimgridBackend::has_jitter() const { refuse(); }
const Gpu& SimgridBackend::gpu(int) const { refuse(); }
std::vector<AllocatorEvent> SimgridBackend::allocator_history(int) const { refuse(); }
std::map<std::string, double> SimgridBackend::link_bytes() const { refuse(); }
std::string platform_refusal(const std::string&, const std::filesystem::path&) { return {}; }

}  // namespace shardsim
#endif
