// The scenario's `prices`: read strictly, laid over the platform, and said under the table.
#include <doctest/doctest.h>

#include "app/prices.h"
#include "app/run.h"
#include "core/error.h"
#include "scratch.h"

using namespace shardsim;
using namespace shardsim::test;
using doctest::Approx;

namespace {

class Folder {
 public:
  Scenario read(const std::string& prices) const {
    folder_.write("s.yaml",
                  "schemes: [dp]\nplatform: dgx-h100\nworld: 2\nmodel: {kind: mlp, widths: [4096, 4096]}\nbatch: {micro: 4096}\n"
                  "precision: {param: bf16}\nnumerics: off\n" +
                      prices);
    return read_scenario(folder_ / "s.yaml", {}, built_in_schemes());
  }
  std::string refusal(const std::string& prices) const {
    try {
      read(prices);
    } catch (const ScenarioError& error) {
      return error.what();
    }
    return "accepted";
  }
  Gpu gpu(const std::string& prices) const {
    const Scenario scenario = read(prices);
    const Registry registry = built_in_schemes();
    return run_scheme(scenario, TrainingSet(scenario), *registry.find("dp")).gpu;
  }
  const Scratch& scratch() const { return folder_; }

 private:
  Scratch folder_;
};

}  // namespace

TEST_CASE("prices of the scenario win over the platform's GPU, and the note says who said what") {
  const Folder folder;
  const Gpu plain = folder.gpu("");
  CHECK(plain.gemm_efficiency == 0.65);
  CHECK(prices_note(plain).find("gemm_efficiency 0.65") != std::string::npos);
  const Gpu gpu = folder.gpu(
      "prices: {gemm_efficiency: 60%, stack: compiled, attention: fa3, jitter: 0.8%, launch_seconds: 0s, attention_half_sequence: "
      "700,"
      " calibrated: {gemm_efficiency: 0.5, contention: 4.5}}\n");
  CHECK(gpu.gemm_efficiency == Approx(0.6));
  CHECK(gpu.contention == 4.5);
  CHECK(gpu.rotate_bytes == 8);
  CHECK(gpu.attention_128.flops == 520e12);
  CHECK(gpu.attention_64.half_sequence == 700);
  CHECK(gpu.launch_seconds == 0);
  const std::string note = prices_note(gpu);
  for (const char* part : {"scenario: gemm_efficiency 0.6", "calibrated: contention 4.5", "jitter 0.008", "multiprocessors 132",
                           "stack compiled, attention fa3."})
    CHECK_MESSAGE(note.find(part) != std::string::npos, note);
  CHECK(folder.gpu("prices: {gpu: b200}\n").name == "B200");
}

TEST_CASE("a file of calibrated prices stands behind what the scenario says itself") {
  const Folder folder;
  folder.scratch().write("mine.yaml", "# one row\ngemm_efficiency: 0.55\nattention_flops: 300Tf\n");
  const Gpu gpu = folder.gpu("prices: {from: mine.yaml, attention_flops: 310Tf}\n");
  CHECK(gpu.gemm_efficiency == 0.55);
  CHECK(gpu.attention_128.flops == 310e12);
  CHECK(prices_note(gpu).find("calibrated: gemm_efficiency 0.55") != std::string::npos);
  folder.scratch().write("mine.yaml", "gemm_eficiency: 0.55\n");
  CHECK(folder.refusal("prices: {from: mine.yaml}\n").find("mine.yaml:1: gemm_eficiency: unknown key") != std::string::npos);
  CHECK(folder.refusal("prices: {from: missing.yaml}\n").find("missing.yaml") != std::string::npos);
}

TEST_CASE("a step is as much longer as its prices say") {
  const Folder folder;
  const auto step = [&folder](const std::string& prices) {
    const Scenario scenario = folder.read(prices);
    const Registry registry = built_in_schemes();
    const RankResult rank = run_scheme(scenario, TrainingSet(scenario), *registry.find("dp")).ranks[0];
    double compute = 0;
    for (const Span& span : rank.spans)
      if (span.op == Op(Matmul{}).index()) compute += span.end - span.begin;
    return compute;
  };
  // Two products of 2 x 4096^3 flop (the input has no gradient): 2 x 4096^3 x 2 / 989e12 s at 100 %, and their waves.
  const std::string only = "prices: {multiprocessors: 0, output_write: 0, kernel_seconds: 0s, contention: 0, gemm_efficiency: ";
  const double whole = step(only + "1}\n");
  CHECK(whole == Approx(2 * 2 * 4096.0 * 4096 * 4096 / 989e12).epsilon(1e-6));
  CHECK(step(only + "0.5}\n") == Approx(2 * whole).epsilon(1e-6));
}

TEST_CASE("each wrong price is refused by key and line") {
  const Folder folder;
  const std::pair<const char*, const char*> wrong[] = {
      {"prices: 3\n", "prices: is '3', but a map is expected"},
      {"prices: {gemm: 1}\n", "prices.gemm: unknown key; known keys: gpu, stack, attention, memory"},
      {"prices: {gpu: h101}\n", "prices.gpu: there is no GPU 'h101' in the table; known GPUs: v100-sxm2"},
      {"prices: {stack: compile}\n", "prices.stack: unknown value 'compile'; known values: natural, fused, compiled"},
      {"prices: {attention: fa9}\n", "prices.attention: unknown value 'fa9'"},
      {"prices: {gemm_efficiency: 3}\n", "prices.gemm_efficiency: '3' is out of range"},
      {"prices: {kernel_seconds: 3}\n", "prices.kernel_seconds: '3' has no unit"},
      {"prices: {attention_flops: 3 apples}\n", "prices.attention_flops: '3 apples' has the unknown unit"},
      {"prices: {contention: [1]}\n", "prices.contention: is a list"},
      {"prices: {contention: 1, contention: 2}\n", "prices.contention: is given twice"},
      {"prices: {calibrated: {stock: 1}}\n", "prices.calibrated.stock: unknown key"},
      {"prices: {calibrated: {from: x}}\n", "prices.calibrated.from: unknown key"},
  };
  for (const auto& [text, reason] : wrong) {
    const std::string line = folder.refusal(text);
    CHECK_MESSAGE(line.find(reason) != std::string::npos, line);
    CHECK(line.find("s.yaml:8: ") != std::string::npos);
    CHECK(line.find('\n') == std::string::npos);
  }
}

TEST_CASE("a kernel whose speed is unknown on the platform's GPU is refused before the first step") {
  const Folder folder;
  CHECK_THROWS_WITH_AS(folder.gpu("prices: {attention: fa4}\n"),
                       doctest::Contains("attention: the speed of 'fa4' on GPU h100-sxm is not known"), ScenarioError);
}
