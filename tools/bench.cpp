// The speed of the simulator itself: collectives, a cost-only step, host arithmetic. Every measurement is a process of its own,
// since SimGrid has one engine per process; CPU seconds and peak memory are what the kernel charged that process.
#include <unistd.h>

#include <Eigen/Core>
#include <algorithm>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "backends/simgrid/backend.h"
#include "bench_scale.h"
#include "block_arithmetic.h"
#include "core/registry.h"
#include "counting.h"
#include "measuring.h"
#include "models/mlp.h"
#include "numerics/host.h"

using namespace shardsim;

namespace {

// ---- what is measured

struct Link {  // of each rank, each way
  double bandwidth = 50e9, latency = 1e-6;
};

std::filesystem::path ideal_platform(int ranks, Link link) {
  const std::string name = "shardsim-bench-" + std::to_string(getpid()) + ".xml";
  const std::filesystem::path file = std::filesystem::temp_directory_path() / name;
  std::ofstream(file) << R"(<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="ideal" prefix="gpu" suffix="" radical="0-)"
                      << ranks - 1 << R"(" speed="1Gf" bw=")" << link.bandwidth / 1e9 << R"(GBps" lat=")" << link.latency / 2e-6
                      << R"(us" sharing_policy="SPLITDUPLEX">
    <prop id="gpu" value="ideal"/>
    <prop id="memory" value="80GB"/>
    <prop id="memory_bandwidth" value="3TBps"/>
    <prop id="fp32_flops" value="100Tf"/>
    <prop id="bf16_flops" value="400Tf"/>
  </cluster>
</platform>
)";
  return file;
}

struct Training {
  int layers = 36, width = 1024, rows = 8;
  bool numerics = false;

  /// One rank's part of `steps` steps of zero3 with a unit per layer.
  void operator()(Device& device, Fabric& fabric, int world, int steps) const {
    auto dim = [&](std::int64_t n) { return Dim{n, numerics ? n : 0}; };
    Knobs knobs;
    knobs.streams = 3;
    auto rows_of_ones = [this](int, int, std::vector<float>& x, std::vector<float>& y) {
      if (numerics) x.assign(std::size_t(rows) * width, 1.f), y = x;
    };
    Mlp model(device, {std::vector<Dim>(std::size_t(layers) + 1, dim(width)), dim(rows), Dtype::fp32, 1}, rows_of_ones);
    std::vector<float> theta0(numerics ? std::size_t(layers) * width * (width + 1) : 0, 0.01f);
    Rank rank{device, fabric, model, knobs, theta0, "zero3", device.rank(), world};
    const Registry schemes = built_in_schemes();
    const std::unique_ptr<Scheme> scheme = SchemeChoice(*schemes.find("zero3")).make();
    scheme->bind(rank);
    StepReport report;
    for (int step = 0; step < steps; ++step) scheme->run_step(step, report);
    device.synchronize();
  }
};

struct Work {
  long operations;
  double flops;
};
Work work_of_a_step(const Training& training, int world) {
  auto count = [&](int steps) {
    CountingDevice device;
    IssueOrder order;
    CountingFabric fabric(device, order);
    Training counted = training;
    counted.numerics = false;
    counted(device, fabric, world, steps);
    return Work{device.operations, device.flops};
  };
  const Work one = count(1), two = count(2);
  return {two.operations - one.operations, two.flops - one.flops};
}

/// Simulated seconds until the last rank is done.
double simulate(Fidelity fidelity, int world, bool numerics, const std::function<void(Device&, Fabric&)>& body, Link link = {}) {
  SimgridSettings settings;
  settings.numerics = numerics;
  settings.checks_hazards = false;
  settings.recorded_ranks = 0;
  settings.fidelity = fidelity;
  settings.platform = ideal_platform(world, link);
  if (numerics) numerics::fix_blocking();
  double end = 0;
  try {
    SimgridBackend backend(settings);
    backend.run(world, [&](Device& device, Fabric& fabric) {
      body(device, fabric);
      fabric.finish();
      end = std::max(end, device.now());
    });
  } catch (...) {
    std::filesystem::remove(settings.platform);
    throw;
  }
  std::filesystem::remove(settings.platform);
  return end;
}

// ---- the figures

void all_reduce(Fidelity fidelity, int world, std::int64_t bytes, Link link) {
  const auto reduce = [&](int times) {
    return simulate(
        fidelity, world, false,
        [&](Device& device, Fabric& fabric) {
          const Group all{0, 1, world, device.rank()};
          const Tensor buffer = device.alloc(Lane::gather, Band::bucket, one, Dim{bytes / 4, 0}, Dtype::fp32);
          for (int i = 0; i < times; ++i) fabric.all_reduce(Lane::gather, all, buffer);
          device.free(Lane::gather, buffer);
          device.synchronize();
        },
        link);
  };
  const Measured m = per_repetition(4, reduce);
  const double closed_form = 2.0 * (world - 1) * (double(bytes) / world / link.bandwidth + link.latency);
  std::printf("%-8s %6d %8ld %14.4f %14.4f %14.3f %10.0f\n", fidelity == Fidelity::ring ? "ring" : "coupled", world,
              long(bytes >> 20), 1e3 * m.answer, 1e3 * closed_form, 1e3 * m.cpu_seconds, m.mebibytes);
}

void zero3_step(int world) {
  const Training training;
  const Work work = work_of_a_step(training, world);
  const Measured m = per_repetition(2, [&](int steps) {
    return simulate(Fidelity::coupled, world, false,
                    [&](Device& device, Fabric& fabric) { training(device, fabric, world, steps); });
  });
  std::printf("%6d %14.3f %12ld %10.3f %12.2f %10.0f %12.0f\n", world, 1e3 * m.answer, work.operations, m.cpu_seconds,
              1e6 * m.cpu_seconds / double(work.operations) / world, m.mebibytes, 1024 * m.mebibytes / world);
}

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

void multiply(const Matrix& a, const Matrix& b, bool ta, bool tb, Matrix& out) {
  if (ta) out.noalias() = a.transpose() * b;
  else if (tb) out.noalias() = a * b.transpose();
  else out.noalias() = a * b;
}

std::function<void()> bare_product(const Matmul& o) {
  auto like = [](const Tensor& t) { return Matrix(Matrix::Random(t.rows.charged(), t.cols.charged())); };
  return [a = like(o.a), b = like(o.b), out = like(o.out), ta = o.ta, tb = o.tb]() mutable { multiply(a, b, ta, tb, out); };
}

/// out (m x n) = a b as the three products of a layer need it: plain, a transposed, b transposed. Returns Eigen's FLOP/s.
double product(int m, int n, int k, bool ta, bool tb) {
  const double flops = 2.0 * m * n * k;
  const Matrix a = Matrix::Random(ta ? k : m, ta ? m : k), b = Matrix::Random(tb ? n : k, tb ? k : n);
  Matrix out(m, n);
  const Measured eigen = in_a_process([&] {  // with the cache sizes that Eigen finds on this machine
    return best_seconds([&] { multiply(a, b, ta, tb, out); });
  });
  const Measured ours = in_a_process([&] {
    numerics::fix_blocking();
    std::deque<Storage> storages;
    auto tensor = [&](int rows, int cols, const float* values) {
      Storage& storage = storages.emplace_back();
      storage.count = Dim{rows, rows} * Dim{cols, cols};
      storage.at = numerics::allocate(storage.count);
      const Tensor view{&storage, 0, none, {rows, rows}, {cols, cols}};
      if (values) std::copy_n(values, std::size_t(rows) * cols, numerics::data(view));
      return view;
    };
    Matmul op{};
    op.a = tensor(int(a.rows()), int(a.cols()), a.data());
    op.b = tensor(int(b.rows()), int(b.cols()), b.data());
    op.out = tensor(m, n, nullptr);
    op.ta = ta, op.tb = tb;
    return best_seconds([&] { numerics::run(op); });
  });
  const char* transposed = ta ? "a^T" : "";
  if (tb) transposed = "b^T";
  std::printf("%5d x %5d x %5d %-4s %12.1f %12.1f %12.2f\n", m, n, k, transposed, 1e-9 * flops / eigen.answer,
              1e-9 * flops / ours.answer, eigen.answer / ours.answer);
  return flops / eigen.answer;
}

void share_of_arithmetic(double eigen_flops_per_second) {
  Training training{.layers = 4, .width = 1024, .rows = 1024, .numerics = true};
  constexpr int world = 2;
  auto seconds = [&](bool numerics) {
    training.numerics = numerics;
    auto steps = [&](int steps) {
      return simulate(Fidelity::coupled, world, numerics,
                      [&](Device& device, Fabric& fabric) { training(device, fabric, world, steps); });
    };
    return per_repetition(3, steps).cpu_seconds;
  };
  const double with = seconds(true), without = seconds(false);
  const double products = world * work_of_a_step(training, world).flops / eigen_flops_per_second;
  std::printf("zero3 step, 4 layers of 1024 x 1024, %d rows, 2 ranks: %.3f CPU s\n", training.rows, with);
  std::printf("arithmetic is %.1f %% of it; its matrix products alone, at bare Eigen's speed, %.1f %%\n",
              100 * (with - without) / with, 100 * products / with);
}

}  // namespace

int main(int count, char** arguments) {
  std::vector<std::string> words(arguments + 1, arguments + count);
  const bool all = std::erase(words, "--all") > 0;
  const std::string only = words.empty() ? "" : words[0];
  auto wanted = [&](const char* part) { return only.empty() || only == part; };
  if (!(wanted("allreduce") || wanted("zero3") || wanted("scale") || wanted("arithmetic") || wanted("block"))) {
    std::fprintf(stderr, "usage: bench [allreduce | zero3 | scale | arithmetic | block] [--all]\n");
    return 2;
  }
  if (wanted("allreduce")) {
    std::printf(
        "ring all-reduce on an ideal platform: 64 MiB at 50 GB/s and 1 us, 1 GiB at 300 GB/s and 500 ns (per all-reduce)\n"
        "%-8s %6s %8s %14s %14s %14s %10s\n",
        "fabric", "ranks", "MiB", "simulated ms", "closed form ms", "CPU ms", "peak MiB");
    for (Fidelity fidelity : {Fidelity::coupled, Fidelity::ring})
      for (int world : {8, 64, 512})
        if (all || fidelity != Fidelity::ring || world < 512) all_reduce(fidelity, world, 64 << 20, {});
    for (int world : {8, 64, 512, 4096}) all_reduce(Fidelity::coupled, world, 1 << 30, {300e9, 500e-9});
  }
  if (wanted("zero3")) {
    std::printf("\nzero3 step, 36 layers, cost only (no numerics, no hazard checks), coupled\n%6s %14s %12s %10s %12s %10s %12s\n",
                "ranks", "simulated ms", "ops/rank", "CPU s", "us CPU/op", "peak MiB", "KiB/rank");
    for (int world : {8, 64, 256, 1024}) zero3_step(world);
  }
  if (wanted("scale")) bench_scale(all);
  if (wanted("arithmetic")) {
    std::printf("\nmatrix products, one thread: m x n x k\n%-24s %12s %12s %12s\n", "", "Eigen GF/s", "op GF/s", "op / Eigen");
    const double best = product(512, 1024, 1024, false, false);
    product(1024, 1024, 512, true, false);
    product(512, 1024, 1024, false, true);
    product(32, 128, 128, false, false);
    product(8, 32, 32, false, false);
    std::printf("\n");
    share_of_arithmetic(best);
  }
  if (wanted("block")) block_arithmetic(bare_product);
}
