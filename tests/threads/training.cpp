// Training on threads: data, model and scheme of every rank, and what they leave.
#include "threads/training.h"

#include "backends/threads/backend.h"
#include "core/registry.h"
#include "models/data.h"
#include "models/mlp.h"
#include "numerics/theta.h"

namespace shardsim::threads_tests {
namespace {

const std::vector<std::int64_t> widths = {6, 10, 10, 3};
constexpr std::int64_t rows = 4;

}  // namespace

std::int64_t Trained::padded() const {
  std::int64_t sum = 0;
  for (const Unit& unit : units) sum += unit.padded.charged();
  return sum;
}

Trained train(const Job& job) {
  const Registry registry = built_in_schemes();
  const SchemeEntry* entry = registry.find(job.scheme);
  const Data data = Data::from_teacher(widths, 64, 7);
  const bool numerics = job.backend.numerics;
  const std::vector<float> theta0 = numerics ? seeded_theta(widths, 5) : std::vector<float>();
  auto dim = [numerics](std::int64_t n) { return Dim(n, numerics ? n : 0); };
  Mlp::Shape shape{{}, dim(rows), job.knobs.precision.param, job.knobs.accumulation};
  for (std::int64_t width : widths) shape.widths.push_back(dim(width));

  Trained trained;
  trained.ranks.resize(job.world);
  std::vector<std::vector<StepReport>> reports(job.world, std::vector<StepReport>(job.steps));
  std::vector<std::vector<ThetaPiece>> pieces(job.world);
  std::vector<std::vector<Unit>> units(job.world);
  ThreadsBackend backend(job.backend);
  backend.run(job.world, [&](Device& device, Fabric& fabric) {
    const int me = device.rank();
    BatchSource source;
    if (numerics)
      source = [&](int step, int micro_batch, std::vector<float>& x, std::vector<float>& y) {
        data.fill({step, micro_batch, job.knobs.accumulation, me, job.world, rows}, x, y);
      };
    Mlp model(device, shape, source);
    Options options(entry->options);
    for (const auto& [name, value] : job.options) options.set(name, value);
    const auto scheme = entry->make(options);
    Rank rank{device, fabric, model, job.knobs, theta0, job.scheme, me, job.world};
    scheme->bind(rank);
    for (int step = 0; step < job.steps; ++step) scheme->run_step(step, reports[me][step]);
    device.synchronize();
    trained.ranks[me].resident_bytes = device.ledger().held();
    trained.ranks[me].resident_state_bytes =
        device.ledger().held(Band::param) + device.ledger().held(Band::grad) + device.ledger().held(Band::opt);
    pieces[me] = scheme->theta();
    units[me] = scheme->units();
  });
  for (int me = 0; me < job.world; ++me) {
    const Device& device = backend.device(me);
    Trained::Rank& rank = trained.ranks[me];
    rank.traffic_bytes = device.recorder().traffic_bytes(), rank.control_bytes = device.recorder().control_bytes();
    rank.peak_bytes = device.ledger().peak().bytes;
    rank.spans = device.recorder().spans();
    for (const StepReport& report : reports[me])
      trained.losses.insert(trained.losses.end(), report.loss.begin(), report.loss.end());
  }
  trained.units = units[0];
  if (numerics) trained.theta = numerics::assembled_theta(trained.units, pieces);
  return trained;
}

}  // namespace shardsim::threads_tests
