// The benchmark's large worlds. CPU seconds are those of a process of its own for each run. What loading the platform
// takes is measured in another one, in which one rank that stands for all does nothing, and taken off.
#include "bench_scale.h"

#include <cstdio>
#include <fstream>
#include <string>

#include "app/platform_writer.h"
#include "app/run.h"
#include "app/scenario_model.h"
#include "backends/simgrid/backend.h"
#include "core/registry.h"
#include "counting.h"
#include "measuring.h"

namespace shardsim {
namespace {

/// Nodes of eight H100s behind eight NICs of 400 Gbit/s, one switch: the platform's file, as long as the object lives.
class Machine {
 public:
  explicit Machine(int world)
      : file_(std::filesystem::temp_directory_path() / ("shardsim-bench-scale-" + std::to_string(getpid()))) {
    MachineSpec spec;
    spec.nodes = world / 8, spec.gpu = "h100-sxm";
    if (spec.nodes > 1) spec.nic = 50e9, spec.nics_per_node = 8;
    std::ofstream(file_) << platform_xml(completed(spec), "");
  }
  ~Machine() { std::filesystem::remove(file_); }
  Machine(const Machine&) = delete;
  const std::filesystem::path& file() const { return file_; }

 private:
  std::filesystem::path file_;
};

/// One step without numerics and hazard checks, three streams, a unit per layer, one unit gathered ahead, nothing recorded.
Scenario one_step(int world) {
  Scenario s;
  s.world = world;
  s.numerics = Numerics::off;
  s.checks_hazards = false;
  s.recorded_ranks = 0;
  s.launch_queue = 64;
  s.knobs.streams = 3;
  s.knobs.units = {Cut::Kind::layer, 0};
  return s;
}

Scenario perceptron(int world) {
  Scenario s = one_step(world);
  s.model.widths.assign(37, 1024);
  s.micro_batch = 8;
  return s;
}

Scenario gpt2_large(int world) {
  Scenario s = one_step(world);
  s.transformer = TransformerChoice{};
  s.transformer->shape = find_preset("gpt2-large")->shape;
  s.transformer->sequence = 1024;
  s.micro_batch = 8;
  s.knobs.precision = {Dtype::bf16, Dtype::bf16, Dtype::bf16};
  return s;
}

SchemeChoice choice_of(const std::string& scheme) {
  static const Registry registry = built_in_schemes();
  return *registry.find(scheme);
}

/// Of a rank: what it allocates at first, and the step.
long operations(const Scenario& s, const std::string& scheme) {
  CountingDevice device;
  IssueOrder order;
  CountingFabric fabric(device, order);
  const TrainingSet set(s);
  const std::unique_ptr<Model> model = set.model(device, 0);
  const std::unique_ptr<Scheme> program = choice_of(scheme).make();
  Rank rank{device, fabric, *model, s.knobs, set.theta0(), scheme, 0, s.world};
  program->bind(rank);
  StepReport report;
  program->run_step(0, report);
  return device.operations;
}

void measure(const char* model, Scenario s, const std::string& scheme, Folds folds) {
  const Machine machine(s.world);
  s.platform = machine.file(), s.folds = folds;
  const TrainingSet set(s);
  const auto run = [&] { return run_scheme(s, set, choice_of(scheme)); };
  const Measured whole = in_a_process([&] { return run().ranks[0].step_end[0]; });
  const double simulated = folds == Folds::all ? s.world : in_a_process([&] { return double(run().ranks.size()); }).answer;
  const Measured platform = in_a_process([&] {
    Programs none{std::vector<std::uint64_t>(std::size_t(s.world)), std::vector<std::vector<Programs::Use>>(std::size_t(s.world))};
    SimgridSettings settings;
    settings.platform = machine.file(), settings.numerics = settings.checks_hazards = false, settings.recorded_ranks = 0;
    settings.programs = std::make_shared<Programs>(std::move(none));
    SimgridBackend(settings).run(s.world, [](Device&, Fabric&) {});
    return 0.0;
  });
  const double cpu = std::max(0.0, whole.cpu_seconds - platform.cpu_seconds);
  const double entries = double(operations(s, scheme)) * simulated;
  std::printf("%-22s %-6s %7d %9.0f %13.3f %12.0f %11.3f %9.3f ", model, scheme.c_str(), s.world, simulated, 1e3 * whole.answer,
              entries, platform.cpu_seconds, cpu);
  if (folds == Folds::all) std::printf("%9.2f %10.0f\n", 1e6 * cpu / entries, whole.mebibytes);
  else std::printf("%9s %10.0f\n", "-", whole.mebibytes);  // telling the ranks apart takes longer than the step
}

}  // namespace

void bench_scale(bool all) {
  std::printf(
      "\none step, cost only (no numerics, no hazard checks), 3 streams, coupled; nodes of 8 H100s and 8 x 400 Gbit/s\n"
      "%-22s %-6s %7s %9s %13s %12s %11s %9s %9s %10s\n",
      "model", "scheme", "ranks", "simulated", "simulated ms", "operations", "platform s", "CPU s", "us/op", "peak MiB");
  const char* const layers = "36 layers of 1024^2";
  for (const int world : {1024, 4096, 16384})
    if (all || world < 16384) measure(layers, perceptron(world), "zero3", Folds::all);
  for (const int world : {16384, 131072}) measure(layers, perceptron(world), "zero3", Folds::folded);
  for (const char* scheme : {"dp", "zero3"})
    for (const int world : {8, 64, 512, 4096})
      if (all || world < 4096) measure("GPT-2 Large, 8 x 1024", gpt2_large(world), scheme, Folds::all);
}

}  // namespace shardsim
