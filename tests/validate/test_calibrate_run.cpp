// Calibration from a run's folder: prices that a run was made with are found again from its launches and collectives.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "app/calibrate_run.h"
#include "core/error.h"
#include "scratch.h"
#include "validate/tables.h"

using namespace shardsim;
using test::value_of;

namespace {

constexpr const char* scenario =
    "schemes: [dp, zero3]\nplatform: dgx-h100\nworld: 8\nmodel: {preset: gpt2, layers: 3}\nbatch: {micro: 4, sequence: 512}\n"
    "precision: {param: bf16, grad: bf16}\nunits: layer\nstreams: 3\nnumerics: off\nsteps: 3\n";

/// Runs the scenario with other prices into a folder, as if it had been measured.
class MeasuredRun {
 public:
  explicit MeasuredRun(const std::string& options, const std::string& text = scenario) {
    scratch_.write("s.yaml", text);
    const std::string command = "cd '" + scratch_.path().string() + "' && " SHARDSIM_PROGRAM " run s.yaml -o real --quiet " +
                                options + " && sed -i 's/\"backend\": \"simgrid\"/\"backend\": \"cuda\"/' real/summary.json";
    REQUIRE(std::system(command.c_str()) == 0);
  }
  std::filesystem::path folder() const { return scratch_ / "real"; }
  std::filesystem::path base() const { return scratch_ / "s.yaml"; }

 private:
  test::Scratch scratch_;
};

}  // namespace

TEST_CASE("all prices that a run's launches depend on are found again, whatever the scenario assumes") {
  const test::TableFolder tables;
  const MeasuredRun run(
      "--set prices='{gemm_efficiency: 0.45, memory_efficiency: 0.7, kernel_seconds: 3us, attention_64_flops: 200Tf}'");
  for (const char* scheme : {"dp", "zero3"}) {
    CAPTURE(scheme);
    const RunCalibration found = calibrate_from_run(run.folder(), run.base(), scheme, {}, tables.registry());
    CHECK(value_of(found.prices, "gemm_efficiency") == doctest::Approx(0.45).epsilon(1e-3));
    CHECK(value_of(found.prices, "memory_efficiency") == doctest::Approx(0.7).epsilon(1e-3));
    CHECK(value_of(found.prices, "kernel_seconds") == doctest::Approx(3).epsilon(1e-2));
    CHECK(value_of(found.prices, "attention_64_flops") == doctest::Approx(200).epsilon(1e-3));
    double worst_before = 0;
    for (const MeasuredOperation& operation : found.operations) {
      worst_before = std::max(worst_before, std::abs(operation.before / operation.measured - 1));
      CHECK(std::abs(operation.after / operation.measured - 1) < 5e-3);
    }
    CHECK(worst_before > 0.2);
    CHECK(operations_text(found).find("# matmul") != std::string::npos);
  }
}

TEST_CASE("a simulated run is no measurement: its prices are the program's own") {
  const test::TableFolder tables;
  const MeasuredRun run("");
  const std::string undo =
      "sed -i 's/\"backend\": \"cuda\"/\"backend\": \"simgrid\"/' '" + (run.folder() / "summary.json").string() + "'";
  REQUIRE(std::system(undo.c_str()) == 0);
  const auto refused = doctest::Contains(
      ": zero3 was simulated, so its times are this program's own prices; calibrate from a run that was measured");
  CHECK_THROWS_WITH_AS(calibrate_from_run(run.folder(), run.base(), "zero3", {}, tables.registry()), refused, ScenarioError);
  CHECK_THROWS_WITH_AS(calibrate_collectives_from_run(run.folder(), "zero3"), refused, ScenarioError);
}

TEST_CASE("a damaged trace is refused in one line that names it") {
  const test::TableFolder tables;
  const MeasuredRun run("");
  for (const char* text :
       {"{\"traceEvents\":[{\"cat\":\"kernel\",\"pid\":0}]}", "{\"traceEvents\":5}", "{\"traceEvents\":[5]}", "[1]",
        "{\"traceEvents\":[{\"cat\":\"kernel\",\"pid\":\"x\"}]}", "{\"traceEvents\":[{\"cat\":5}]}", "{", "{}"}) {
    CAPTURE(text);
    std::ofstream(run.folder() / "dp/trace.json") << text;
    CHECK_THROWS_WITH_AS(calibrate_from_run(run.folder(), run.base(), "dp", {}, tables.registry()),
                         doctest::Contains("trace.json: is no trace of this program; run it again"), ScenarioError);
  }
  std::filesystem::remove(run.folder() / "dp/trace.json");
  std::filesystem::create_directory(run.folder() / "dp/trace.json");
  CHECK_THROWS_WITH_AS(calibrate_from_run(run.folder(), run.base(), "dp", {}, tables.registry()),
                       doctest::Contains("trace.json: cannot be read"), ScenarioError);
}

TEST_CASE("latency and bandwidth of a run's collectives are found again") {
  const MeasuredRun run("--set collectives='{alpha: {all_gather: 50us}, bus: {all_gather: 200GBps}}' --set fabric=formula");
  const Calibration found = calibrate_collectives_from_run(run.folder(), "zero3");
  CHECK(value_of(found, "collectives.alpha.all_gather") == doctest::Approx(50).epsilon(1e-3));
  CHECK(value_of(found, "collectives.bus.all_gather") == doctest::Approx(200).epsilon(1e-3));
}

TEST_CASE("a run is refused that the scenario does not explain") {
  const test::TableFolder tables;
  const MeasuredRun run("");
  const auto refused = [&](const std::string& scheme, const std::vector<std::string>& overrides, const char* words) {
    CHECK_THROWS_WITH_AS(calibrate_from_run(run.folder(), run.base(), scheme, overrides, tables.registry()),
                         doctest::Contains(words), ScenarioError);
  };
  refused("zero2", {}, "has no results of it; it has dp, zero3");
  refused("dp", {"model.layers=2"}, "calibrate from a run of the same scenario");
  refused("dp", {"batch.accumulation=9"}, "launches on the compute stream, and the scenario");
  std::filesystem::remove(run.folder() / "dp" / "trace.json");
  refused("dp", {}, "run without --gzip and --trace-per-rank");
  const MeasuredRun alone("--set world=1");
  CHECK_THROWS_WITH_AS(calibrate_collectives_from_run(alone.folder(), ""), doctest::Contains("no collective of two sizes"),
                       ScenarioError);
}
