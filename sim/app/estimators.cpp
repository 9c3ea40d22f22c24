// Estimators: formulas in bytes, split into the bands of the ledger, and the run that they are held against.
#include "app/estimators.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "app/metrics.h"
#include "app/run.h"
#include "app/scenario_parts.h"
#include "app/table.h"
#include "app/trial.h"
#include "app/yaml_reader.h"

namespace shardsim {
namespace {

constexpr int stages = 4;
using Bands = std::array<double, band_count>;

Bands bands(double param, double grad, double opt, double gathered = 0, double activation = 0) {
  Bands all{};
  all[std::size_t(Band::param)] = param, all[std::size_t(Band::grad)] = grad, all[std::size_t(Band::opt)] = opt;
  all[std::size_t(Band::gathered)] = gathered, all[std::size_t(Band::activation)] = activation;
  return all;
}

/// Megatron's own count: no biases of the linears, no positions (a norm has a scale and, in LayerNorm, a shift).
double megatron_parameters(const TransformerShape& s) {
  const double h = double(s.hidden), norm = s.family == Family::gpt2 ? 2 : 1, gated = s.family == Family::gpt2 ? 1 : 1.5;
  const double query = double(s.head_dim * s.heads) / h;
  const double attention = 2 * h * h * (1 + double(s.kv_heads) / double(s.heads)) * query;
  const double layer = 2 * h * (double(s.ffn) * gated + norm) + attention;
  return layer * s.layers + norm * h + (s.tied ? 1 : 2) * h * double(s.vocab);
}

/// With sequence parallelism and selective recomputation, of which nothing is left for one GPU but the attention's kernel.
double megatron_activations(const EstimatorSizes& e) {
  const double h = double(e.shape.hidden), tokens = double(e.sequence * e.micro_batch);
  const double layers = tokens * h * (18 + 4 * double(e.shape.ffn) / h) * e.shape.layers;
  return layers + 8 * tokens + tokens * h + tokens * h * 4 * (1 + double(e.shape.vocab) / h);
}

std::string padded(const std::string& text, std::size_t columns) {
  return text + std::string(text.size() < columns ? columns - text.size() : 0, ' ');
}
std::string gib(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%9.2f", bytes / 0x1p30);
  return text;
}
std::string with_commas(std::int64_t value) {
  std::string text = std::to_string(value);
  for (int at = int(text.size()) - 3; at > 0; at -= 3) text.insert(std::size_t(at), ",");
  return text;
}

struct Simulated {
  Bands resident{}, peak{};
  double resident_bytes = 0, peak_bytes = 0;
};

/// DeepSpeed's stage as the scenario lists it; one that it does not list has overlap_comm where that is no default yet.
SchemeChoice choice_of_stage(const Scenario& scenario, int stage, const Registry& registry) {
  for (const SchemeChoice& choice : scenario.schemes)
    if (choice.entry.name == "deepspeed" && choice.options.integer("stage") == stage) return choice;
  const SchemeEntry* entry = registry.find("deepspeed");
  if (!entry) throw ScenarioError("explain --estimators: this program has no scheme 'deepspeed' to hold the formulas against");
  Options options(entry->options);
  options.set("stage", std::to_string(stage));
  if (stage == 1 || stage == 2) options.set("overlap_comm", "true");
  return {*entry, options};
}

Simulated simulate(const Scenario& scenario, const TrainingSet& set, const SchemeChoice& choice) {
  const formats::Figures f = measure(scenario, run_scheme(scenario, set, choice));
  Simulated simulated;
  for (const Part& part : f.resident) simulated.resident[std::size_t(part.band)] += double(part.bytes);
  for (const Part& part : f.peak.parts) simulated.peak[std::size_t(part.band)] += double(part.bytes);
  simulated.resident_bytes = double(f.resident_bytes.max), simulated.peak_bytes = double(f.peak_bytes.max);
  return simulated;
}

Scenario scenario_of(const std::string& file, std::vector<std::string> overrides, const Registry& registry) {
  if (!file.empty()) {
    for (const char* ours : {"numerics=off", "backend=simgrid", "steps=2"}) overrides.push_back(ours);
    return read_scenario(file, overrides, registry);
  }
  if (!overrides.empty()) throw ScenarioError("explain --estimators: --set needs a scenario whose key it overrides");
  Scenario scenario = gpt2_scenario("gpt2-large");
  scenario.file = "estimators", scenario.name = "GPT-2 Large";
  scenario.steps = 2;
  return scenario;
}

/// What a stage has in a band that formulas say too little of.
std::string missing(int stage, Band band, const EstimatorSizes& sizes) {
  switch (band) {
    case Band::bucket:
      return stage == 0   ? "gradients flattened for the all-reduce"
             : stage == 3 ? "the reduce bucket, reduce_bucket_size elements, held for good"
                          : "the IPG buckets of reduce_bucket_size elements, two with overlap_comm";
    case Band::grad:
      return stage == 3 ? "partitioned gradients, held for good, and what backward has just made" : "what backward has just made";
    case Band::gathered:
      return "all that was gathered and not yet released (stage3_max_live_parameters)";
    case Band::activation:
      return "what forward keeps; one copy of the logits alone is " +
             bytes_text(2. * double(sizes.micro_batch * sizes.sequence * sizes.shape.vocab));
    case Band::workspace:
      return "temporaries of an op or of the optimizer; buffers of the model, such as masks";
    default:
      return "what stays in full, and padding";
  }
}

/// Why what a formula counts is not there at the worst instant.
std::string in_vain(int stage, Band band) {
  if (band == Band::activation) return "counted, but these kernels keep less";
  if (band != Band::grad) return "counted, but less is held then";
  if (stage == 0) return "counted in full, but at the peak backward has not made them yet";
  return stage == 3 ? "counted, but fp32 copies exist in the step only, after the activations"
                    : "counted, but they live in the buckets, and fp32 copies in the step only";
}

std::string forgotten(const Estimate& estimate, const Simulated& simulated, const EstimatorSizes& sizes) {
  std::string text;
  const double least = 0.005 * simulated.peak_bytes;
  for (int i = 0; i < band_count; ++i) {
    const double gap = simulated.peak[std::size_t(i)] - estimate.bands[std::size_t(i)];
    if (std::abs(gap) <= least) continue;
    char head[64];
    std::snprintf(head, sizeof head, "  %+6.2f %-11s", gap / 0x1p30, name_of(Band(i)));
    text += head + (gap > 0 ? missing(estimate.stage, Band(i), sizes) : in_vain(estimate.stage, Band(i))) + "\n";
  }
  return text;
}

std::string band_line(const std::string& name, const Bands& bands, double all) {
  std::string text = padded(name, 24) + gib(all);
  for (const double bytes : bands) text += bytes > 0 ? gib(bytes) : "        -";
  return text + "\n";
}

}  // namespace

double Estimate::bytes() const {
  double all = 0;
  for (const double band : bands) all += band;
  return all;
}

EstimatorSizes estimator_sizes(const Scenario& scenario) {
  if (!scenario.transformer)
    throw ScenarioError(scenario.file.string() + ": model: the estimators speak of transformers; write model: gpt2-large");
  if (scenario.knobs.precision.param == Dtype::fp32)
    throw ScenarioError(
        scenario.file.string() +
        ": precision.param: the estimators speak of 16-bit parameters, not of fp32; use --set precision.param=bf16");
  const TransformerShape& s = scenario.transformer->shape;
  EstimatorSizes sizes;
  sizes.shape = s, sizes.parameters = parameters(s);
  sizes.micro_batch = scenario.micro_batch, sizes.sequence = scenario.transformer->sequence, sizes.ranks = scenario.world;
  // A module's own parameters are one linear's or one embedding's.
  const std::int64_t bias = s.biases ? 1 : 0;
  sizes.largest_layer = std::max({s.vocab * s.hidden, (s.hidden + bias) * (s.heads + 2 * s.kv_heads) * s.head_dim,
                                  (s.hidden + bias) * s.ffn, (s.ffn + bias) * s.hidden});
  return sizes;
}

std::vector<Estimate> estimates(const EstimatorSizes& e) {
  const double psi = double(e.parameters), n = e.ranks, l = double(e.largest_layer);
  const char* paper = "Rajbhandari et al. 2020, arXiv:1910.02054, figure 1, K = 12";
  const char* code = "deepspeed/runtime/zero/stage_1_and_2.py, estimate_zero2_model_states_mem_needs (since PR #5099)";
  const char* docs = "deepspeed.readthedocs.io, Memory Requirements, ZeRO-2 without offload";
  const char* zero3 = "deepspeed/runtime/zero/stage3.py, estimate_zero3_model_states_mem_needs; the documentation's case 1";
  const char* megatron =
      "NVIDIA/Megatron-LM, megatron/training/theoretical_memory_usage.py; activations: arXiv:2205.05198, table 2";
  const double mega = megatron_parameters(e.shape), kept = megatron_activations(e);
  return {
      {"ZeRO paper, baseline", "16 Psi", paper, 0, bands(2 * psi, 2 * psi, 12 * psi)},
      {"ZeRO paper, P_os", "4 Psi + 12 Psi/N", paper, 1, bands(2 * psi, 2 * psi, 12 * psi / n)},
      {"ZeRO paper, P_os+g", "2 Psi + 14 Psi/N", paper, 2, bands(2 * psi, 2 * psi / n, 12 * psi / n)},
      {"ZeRO paper, P_os+g+p", "16 Psi/N", paper, 3, bands(2 * psi / n, 2 * psi / n, 12 * psi / n)},
      {"DeepSpeed code, ZeRO-2", "2 Psi + 18 Psi/N", code, 2, bands(2 * psi, 6 * psi / n, 12 * psi / n)},
      {"DeepSpeed docs, ZeRO-2", "4 Psi + 16 Psi/N", docs, 2, bands(2 * psi, 2 * psi + 4 * psi / n, 12 * psi / n)},
      {"DeepSpeed, ZeRO-3", "4 L + 18 Psi/N", zero3, 3, bands(2 * psi / n, 2 * l + 4 * psi / n, 12 * psi / n, 2 * l)},
      {"Megatron-LM", "18 Psi' + A", megatron, 0, bands(2 * mega, 4 * mega, 12 * mega, 0, kept)},
      {"Megatron-LM, dist. opt.", "(6 + 12/N) Psi' + A", megatron, 1, bands(2 * mega, 4 * mega, 12 * mega / n, 0, kept)},
  };
}

std::string explain_estimators(const std::string& file, const std::vector<std::string>& overrides, const Registry& registry) {
  const Scenario scenario = scenario_of(file, overrides, registry);
  const EstimatorSizes sizes = estimator_sizes(scenario);
  const TrainingSet set(scenario);
  std::vector<Simulated> simulated;
  std::string labels;
  for (int stage = 0; stage < stages; ++stage) {
    const SchemeChoice choice = choice_of_stage(scenario, stage, registry);
    simulated.push_back(simulate(scenario, set, choice));
    labels += (stage > 0 ? ", " : "") + choice.label;
  }
  const std::vector<Estimate> all = estimates(sizes);

  std::string text = scenario.name + ": Psi = " + with_commas(sizes.parameters) +
                     " parameters, L = " + with_commas(sizes.largest_layer) +
                     " in the largest module, N = " + std::to_string(sizes.ranks) + ", " + std::to_string(sizes.micro_batch) +
                     " x " + std::to_string(sizes.sequence) + " tokens per rank.\n";
  text += "The formulas take 16-bit parameters and gradients and fp32 Adam. Psi' = " +
          with_commas(std::int64_t(megatron_parameters(sizes.shape))) + " is Megatron's count\n" +
          "(no biases, no positions); A = " + bytes_text(megatron_activations(sizes)) + " its activations.\nSimulated: " + labels +
          ".\nGiB per GPU, as asked of the allocator.\n\n";
  text += padded("formula", 46) + padded("stage", 6) + " estimate resident  at peak\n";
  for (const Estimate& e : all)
    text += padded(padded(e.name, 25) + e.formula, 46) + padded(std::to_string(e.stage), 6) + gib(e.bytes()) +
            gib(simulated[std::size_t(e.stage)].resident_bytes) + gib(simulated[std::size_t(e.stage)].peak_bytes) + "\n";

  text += "\n" + padded("by band", 24) + "      all";
  for (const char* band : {"param", "grad", "opt", "gathered", "activ.", "bucket", "worksp."}) {
    char cell[16];
    std::snprintf(cell, sizeof cell, "%9s", band);
    text += cell;
  }
  text += "\n";
  for (int stage = 0; stage < stages; ++stage) {
    const Simulated& s = simulated[std::size_t(stage)];
    text += band_line("stage " + std::to_string(stage) + ", resident", s.resident, s.resident_bytes);
    text += band_line("stage " + std::to_string(stage) + ", at the peak", s.peak, s.peak_bytes);
    for (const Estimate& e : all)
      if (e.stage == stage) text += band_line(" " + e.name, e.bands, e.bytes());
  }
  text += "\nWhat each forgets (+) and counts in vain (-) at the simulated peak:\n";
  for (const Estimate& e : all)
    text += e.name + ": " + e.formula + ", stage " + std::to_string(e.stage) + "\n  [" + e.source + "]\n" +
            forgotten(e, simulated[std::size_t(e.stage)], sizes);
  return text;
}

}  // namespace shardsim
