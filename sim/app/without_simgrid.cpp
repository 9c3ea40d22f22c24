// What stands in for the simgrid backend in a program that is built without SimGrid: one line that says so.
#if !SHARDSIM_SIMGRID
#include "backends/simgrid/backend.h"
#include "backends/simgrid/tape.h"
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
LinkBytes SimgridBackend::link_bytes() const { refuse(); }

class simgrid_backend::Tapes {};
class simgrid_backend::TakingDevice {};
Program program_of(const Original&, int, int) { refuse(); }
std::vector<Programs::Use> Program::groups_at(const Mesh&) const { refuse(); }
void Program::check_same(const Program&, int) const { refuse(); }
simgrid_backend::Taking::~Taking() = default;
Score::Score(Original original) : original_(std::move(original)) {}
Score::~Score() = default;
bool Score::is_even() const { return false; }
std::unique_ptr<Scheme> Score::part() { refuse(); }
Model& Score::model() const { refuse(); }
const Scheme& Score::scheme() const { refuse(); }

std::string platform_refusal(const std::string&, const std::filesystem::path&) { return {}; }

}  // namespace shardsim
#endif
