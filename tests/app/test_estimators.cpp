// Estimators: the published formulas give their publishers' numbers, and the text holds them against the simulated stages.
#include <doctest/doctest.h>

#include "app/estimators.h"
#include "core/error.h"
#include "models/transformer_shape.h"
#include "platforms.h"
#include "scratch.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

const Estimate& of(const std::vector<Estimate>& all, const std::string& name) {
  for (const Estimate& each : all)
    if (each.name == name) return each;
  throw std::runtime_error("no estimate " + name);
}

EstimatorSizes gpt2(int ranks) {
  Scenario scenario;
  scenario.transformer = TransformerChoice{"gpt2", find_preset("gpt2")->shape, {}, 1024};
  scenario.micro_batch = 4, scenario.world = ranks;
  scenario.knobs.precision.param = Dtype::bf16;
  return estimator_sizes(scenario);
}

std::size_t lines_with(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("DeepSpeed's estimators give the numbers that its documentation prints for T5-3B on eight GPUs") {
  EstimatorSizes t5{find_preset("gpt2")->shape, 2'851'000'000, 32'000'000, 1, 1024, 8};
  const std::vector<Estimate> all = estimates(t5);
  CHECK(of(all, "DeepSpeed docs, ZeRO-2").bytes() / 0x1p30 == doctest::Approx(15.93).epsilon(0.0005));
  CHECK(of(all, "DeepSpeed, ZeRO-3").bytes() / 0x1p30 == doctest::Approx(6.09).epsilon(0.001));
  CHECK(of(all, "DeepSpeed code, ZeRO-2").bytes() == doctest::Approx(2 * 2851e6 + 18 * 2851e6 / 8));
}

TEST_CASE("the ZeRO paper's formulas give its table: 7.5 billion parameters on 64 GPUs are 120, 31.4, 16.6 and 1.88 GB") {
  EstimatorSizes big{find_preset("gpt2")->shape, 7'500'000'000, 1, 1, 1024, 64};
  const std::vector<Estimate> all = estimates(big);
  CHECK(of(all, "ZeRO paper, baseline").bytes() == 120e9);
  CHECK(of(all, "ZeRO paper, P_os").bytes() / 1e9 == doctest::Approx(31.4).epsilon(0.001));
  CHECK(of(all, "ZeRO paper, P_os+g").bytes() / 1e9 == doctest::Approx(16.6).epsilon(0.003));
  CHECK(of(all, "ZeRO paper, P_os+g+p").bytes() / 1e9 == doctest::Approx(1.88).epsilon(0.003));
}

TEST_CASE("Megatron's formula counts GPT-2 but for the biases and the positions, and its distributed optimizer cuts 12 bytes") {
  const EstimatorSizes sizes = gpt2(8);
  CHECK(sizes.largest_layer == 50257 * 768);
  const double counted = 124'439'808 - 12 * (3 * 768 + 768 + 4 * 768 + 768) - 1024 * 768;
  const std::vector<Estimate> all = estimates(sizes);
  const Estimate &whole = of(all, "Megatron-LM"), &cut = of(all, "Megatron-LM, dist. opt.");
  const double kept = 4096. * 768 * 34 * 12 + 8. * 4096 + 4096. * 768 + 4096. * 4 * (768 + 50257);
  CHECK(whole.bytes() == doctest::Approx(18 * counted + kept).epsilon(1e-12));
  CHECK(cut.bytes() == doctest::Approx((6 + 12 / 8.) * counted + kept).epsilon(1e-12));
}

TEST_CASE("explain --estimators holds every formula against a simulated stage and names the terms that it forgets") {
  const std::string text = explain_estimators("", {}, built_in_schemes());
  CHECK(text.find("GPT-2 Large: Psi = 774,030,080 parameters, L = 64,328,960 in the largest module, N = 8, ") == 0);
  for (const char* formula :
       {"16 Psi", "4 Psi + 12 Psi/N", "2 Psi + 18 Psi/N", "4 Psi + 16 Psi/N", "4 L + 18 Psi/N", "18 Psi' + A"})
    CHECK(text.find(formula) != std::string::npos);
  CHECK(lines_with(text, "+1.86 bucket     the IPG buckets") == 5);      // two of 5e8 bf16 elements: every formula of stages 1, 2
  CHECK(lines_with(text, "+0.93 bucket     the reduce bucket, ") == 2);  // both formulas of stage 3
  CHECK(lines_with(text, "activation what forward keeps; one copy of the logits alone is 392.63 MiB\n") ==
        7);                            // all but Megatron's
  CHECK(lines_with(text, " [") == 9);  // each with its source
}

TEST_CASE("explain --estimators takes a scenario's model and ranks, and stages, and refuses fp32 and a perceptron") {
  PlatformFile platform{IdealGpus{}};
  Scratch folder;
  const std::string head = "schemes: [dp]\nplatform: " + platform.path().string() + "\nworld: 4\nprecision: {param: bf16}\n";
  folder.write("t.yaml",
               "name: small\n" + head +
                   "model: {kind: gpt2, layers: 3, hidden: 64, heads: 4, vocab: 100, positions: 32}\nbatch: {micro: 2}\n");
  folder.write("m.yaml", head + "model: {kind: mlp, widths: [3, 5, 2]}\nbatch: {micro: 2}\n");
  const Registry registry = built_in_schemes();
  CHECK(explain_estimators((folder / "t.yaml").string(), {}, registry).find("N = 4, 2 x 32 tokens per rank.") != std::string::npos);
  CHECK(explain_estimators((folder / "t.yaml").string(), {"batch.micro=3"}, registry).find("N = 4, 3 x 32 ") != std::string::npos);
  CHECK_THROWS_WITH_AS(explain_estimators((folder / "t.yaml").string(), {"precision.param=fp32"}, registry),
                       doctest::Contains("precision.param: the estimators speak of 16-bit parameters"), ScenarioError);
  folder.write("z.yaml", folder.read("t.yaml").replace(folder.read("t.yaml").find("[dp]"), 4, "[{name: deepspeed, stage: 2}]"));
  CHECK(explain_estimators((folder / "z.yaml").string(), {}, registry)
            .find("Simulated: deepspeed, deepspeed-stage1-overlap_comm-true, deepspeed-stage2, deepspeed-stage3.") !=
        std::string::npos);
  CHECK_THROWS_WITH_AS(explain_estimators((folder / "m.yaml").string(), {}, registry),
                       doctest::Contains("the estimators speak of transformers; write model: gpt2-large"), ScenarioError);
}
