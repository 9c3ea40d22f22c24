// Trial: the standard scenario, and its run.
#include "app/trial.h"

#include "app/metrics.h"
#include "app/run.h"
#include "app/scenario_parts.h"
#include "core/error.h"

namespace shardsim {
namespace {

/// A GPU's share of a host of today, for systems that offload: 16 channels of DDR5-4800 for eight GPUs, and PCIe 5.0.
cost::Prices share_of_host() {
  cost::Prices prices;
  for (const auto& [fact, value] : {std::pair{"host_memory_bandwidth", 60e9}, {"host_link_bandwidth", 48e9}})
    prices.values.push_back({cost::facts_named(fact)[0], value, Origin::scenario});
  return prices;
}

/// How a trial on GPT-2 differs from the plain one.
struct Setting {
  int shards = 0;
  std::int64_t more_tokens = 0;  ///< in the vocabulary
  bool fp32 = false;
};

/// A steady step on GPT-2: the first is another one where a system rebuilds its buckets or records its trace.
Trial on_gpt2(const SchemeChoice& choice, const Setting& setting) {
  Trial trial;
  Scenario& scenario = trial.scenario = gpt2_scenario("gpt2");
  scenario.knobs.shards = setting.shards;
  scenario.transformer->shape.vocab += setting.more_tokens;
  if (setting.fp32) scenario.knobs.precision = {};
  scenario.recorded_ranks = 1;
  scenario.steps = 3;
  scenario.tells_timeline = true;
  trial.result = run_scheme(scenario, TrainingSet(scenario), choice);
  trial.figures = measure(scenario, trial.result);
  return trial;
}

}  // namespace

Trial try_out(const SchemeChoice& choice, int accumulation) {
  Trial trial;
  Scenario& scenario = trial.scenario;
  scenario.file = "trial";
  scenario.name = "trial";
  scenario.platform = platforms_folder() / "ideal-8.xml";
  scenario.world = 8;
  scenario.model.widths = {64, 64, 64, 64, 64};
  scenario.micro_batch = 1;
  scenario.knobs.precision = {Dtype::bf16, Dtype::bf16, Dtype::bf16};
  scenario.knobs.accumulation = accumulation;
  scenario.knobs.shards = 4;
  scenario.prices = share_of_host();
  scenario.numerics = Numerics::off;
  trial.result = run_scheme(scenario, TrainingSet(scenario), choice);
  trial.figures = measure(scenario, trial.result);
  return trial;
}

Scenario gpt2_scenario(const std::string& preset) {
  Scenario scenario;
  scenario.file = scenario.name = preset;
  scenario.platform = platforms_folder() / "dgx-h100.xml";
  scenario.world = 8;
  scenario.transformer = TransformerChoice{preset, find_preset(preset)->shape, {}, 1024};
  scenario.micro_batch = 4;
  scenario.knobs.precision = {Dtype::bf16, Dtype::bf16, Dtype::bf16};
  scenario.knobs.streams = 3;
  scenario.prices = share_of_host();
  scenario.numerics = Numerics::off;
  return scenario;
}

std::vector<Trial> try_out_on_gpt2(const std::vector<SchemeChoice>& choices) {
  // Some need to know how many ranks share a copy, some a table that the ranks divide, too, some keep no master.
  constexpr Setting settings[] = {{}, {.shards = 4}, {.shards = 4, .more_tokens = 50304 - 50257}, {.fp32 = true}};
  for (const Setting& setting : settings) {
    std::vector<Trial> trials;
    try {
      for (const SchemeChoice& choice : choices) trials.push_back(on_gpt2(choice, setting));
      return trials;
    } catch (const ScenarioError&) {
      if (choices.size() == 1 && &setting == std::end(settings) - 1) throw;
    }
  }
  std::vector<Trial> trials;  // no setting suits all of them: each in its own
  for (const SchemeChoice& choice : choices) trials.push_back(try_out_on_gpt2({choice}).front());
  return trials;
}

std::string gpt2_trial_words(const Trial& trial) {
  return std::string("GPT-2 (12 layers) on 8 ranks of dgx-h100, 4 x 1024 tokens each, ") +
         (trial.scenario.transformer->shape.vocab == find_preset("gpt2")->shape.vocab ? "" : "50304 tokens in its table, ") +
         (trial.scenario.knobs.precision.has_master() ? "bf16, fp32 master" : "fp32") +
         (trial.scenario.knobs.shards > 0 ? ", mesh: {replicas: 2, shards: 4}" : "");
}

std::string trial_words() { return "8 ranks (of ideal-8), 4 equal layers, a unit each, 2 + 2 + 12 bytes"; }

}  // namespace shardsim
