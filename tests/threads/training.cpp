// Training on threads: data, model and scheme of every rank, and what they leave.
#include "threads/training.h"

#include <cmath>
#include <functional>
#include <memory>

#include "backends/threads/backend.h"
#include "core/registry.h"
#include "models/data.h"
#include "models/mlp.h"
#include "models/transformer.h"
#include "numerics/theta.h"

namespace shardsim::threads_tests {
namespace {

const std::vector<std::int64_t> widths = {6, 10, 10, 3};
constexpr std::int64_t rows = 4;

TransformerShape gpt2_shape() {
  TransformerShape shape;
  shape.layers = 2, shape.hidden = 8, shape.heads = shape.kv_heads = 2, shape.head_dim = 4, shape.ffn = 32;
  shape.vocab = 16, shape.positions = 4;
  return shape;
}

std::vector<float> waves(std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(0.1f * std::sin(float(i)));
  return values;
}

using MakeModel = std::function<std::unique_ptr<Model>(Device&)>;

MakeModel perceptrons(const Job& job, const Data& data) {
  const bool numerics = job.backend.numerics;
  auto dim = [numerics](std::int64_t n) { return Dim(n, numerics ? n : 0); };
  Mlp::Shape shape{{}, dim(rows), job.knobs.precision.param, job.knobs.accumulation};
  for (std::int64_t width : widths) shape.widths.push_back(dim(width));
  return [=, &job, &data](Device& device) {
    BatchSource source;
    if (numerics)
      source = [&job, &data, me = device.rank()](int step, int micro_batch, std::vector<float>& x, std::vector<float>& y) {
        data.fill({step, micro_batch, job.knobs.accumulation, me, job.world, rows}, x, y);
      };
    return std::make_unique<Mlp>(device, shape, source);
  };
}

MakeModel gpt2s(const Job& job) {
  const bool numerics = job.backend.numerics;
  auto dim = [numerics](std::int64_t n) { return Dim(n, numerics ? n : 0); };
  const TransformerShape shape = gpt2_shape();
  TransformerSizes sizes;
  sizes.layers = shape.layers, sizes.hidden = dim(shape.hidden), sizes.head_dim = dim(shape.head_dim), sizes.ffn = dim(shape.ffn);
  sizes.vocab = dim(shape.vocab), sizes.positions = dim(shape.positions);
  sizes.heads = {dim(shape.heads), dim(shape.kv_heads), dim(shape.positions)};
  sizes.sequences = dim(2);
  sizes.type = job.knobs.precision.param, sizes.micro_batches = job.knobs.accumulation;
  return [sizes, numerics](Device& device) {
    TokenBatchSource source;
    if (numerics)
      source = [me = device.rank()](int step, int, std::vector<float>& ids, std::vector<float>& targets) {
        for (int token = 0; token < 8; ++token) {
          ids.push_back(float((3 * token + step + me) % 16));
          targets.push_back(float((5 * token + step + me) % 16));
        }
      };
    return std::make_unique<Transformer>(device, sizes, source);
  };
}

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
  std::vector<float> theta0;
  if (numerics) theta0 = job.gpt2 ? waves(parameters(gpt2_shape())) : seeded_theta(widths, 5);
  const MakeModel make_model = job.gpt2 ? gpt2s(job) : perceptrons(job, data);

  Trained trained;
  trained.ranks.resize(job.world);
  std::vector<std::vector<StepReport>> reports(job.world, std::vector<StepReport>(job.steps));
  std::vector<std::vector<ThetaPiece>> pieces(job.world);
  std::vector<std::vector<Unit>> units(job.world);
  ThreadsBackend backend(job.backend);
  backend.run(job.world, [&](Device& device, Fabric& fabric) {
    const int me = device.rank();
    const std::unique_ptr<Model> model = make_model(device);
    Options options(entry->options);
    for (const auto& [name, value] : job.options) options.set(name, value);
    const auto scheme = entry->make(options);
    Rank rank{device, fabric, *model, job.knobs, theta0, job.scheme, me, job.world};
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
