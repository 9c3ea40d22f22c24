// Scenario: the top level of the file; the parts with keys of their own are in scenario_parts.
#include "app/scenario.h"

#include <charconv>
#include <limits>

#include "app/prices.h"
#include "app/scenario_collectives.h"
#include "app/scenario_copy.h"
#include "app/scenario_figures.h"
#include "app/scenario_memory.h"
#include "app/scenario_model.h"
#include "app/scenario_parts.h"
#include "app/scenario_platform.h"
#include "app/scenario_record.h"
#include "app/scenario_schemes.h"
#include "app/sweep_grid.h"

namespace shardsim {
namespace {

namespace fs = std::filesystem;

std::uint64_t read_seed(const YamlNode& node) {
  std::uint64_t seed = 0;  // all 64 bits: more than a double holds
  const std::string text = text_of(node);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error == std::errc() && end == text.data() + text.size() && !node.quoted) return seed;
  refuse(node,
         quoted(text) + " is no seed; write a whole number from 0 to " + std::to_string(std::numeric_limits<std::uint64_t>::max()));
}

/// Real GPUs: who shares one, and what they cannot be told.
void read_cuda(const Fields& root, Scenario& scenario, std::vector<std::string>& defaults) {
  scenario.nodes.world = scenario.world;
  scenario.loopback = scenario.world == 1;
  if (const YamlNode* node = root.find("fabric")) scenario.loopback = choice_of(*node, {"nccl", "loopback"}) == 1;
  else defaults.push_back(std::string("fabric: ") + (scenario.loopback ? "loopback" : "nccl"));
  if (scenario.numerics != Numerics::full)
    refuse(*root.find("numerics"), "is for simulated GPUs; backend: cuda measures the whole model: write numerics: full");
}

}  // namespace

const char* name_of(Fidelity fidelity) {
  constexpr const char* names[] = {"ring", "coupled", "formula"};
  return names[int(fidelity)];
}
const char* name_of(Latency latency) { return latency == Latency::platform ? "platform" : "nccl"; }
const char* name_of(Numerics numerics) {
  constexpr const char* names[] = {"full", "twin", "off"};
  return names[int(numerics)];
}

Scenario read_scenario(const fs::path& file, const std::vector<std::string>& overrides, const Registry& registry) {
  YamlNode tree = read_yaml(file);
  for (const std::string& assignment : overrides) override_yaml(tree, assignment);
  Scenario scenario = scenario_of(file, tree, registry);
  scenario.changed_files = files_changed_since_run(scenario, tree);
  scenario.notes.insert(scenario.notes.end(), scenario.changed_files.begin(), scenario.changed_files.end());
  return scenario;
}

Scenario scenario_of(const fs::path& file, const YamlNode& tree, const Registry& registry) {
  Scenario scenario;
  scenario.file = file;
  scenario.text = yaml_text(tree);
  std::vector<std::string>& defaults = scenario.defaults_used;
  const Fields root(
      tree, {"name",         "schemes",   "platform",  "world",    "ranks",    "launch_queue", "model",     "data",
             "batch",        "precision", "optimizer", "units",    "streams",  "prefetch",     "unreduced", "grads",
             "step_barrier", "numerics",  "mesh",      "patience", "steps",    "seed",         "backend",   "fabric",
             "latency",      "hazards",   "record",    "expect",   "measured", "memory",       "prices",    "single_gpu_seconds",
             "collectives",  "sweep"},
      defaults);

  const YamlNode* name = root.find("name");
  scenario.name = name ? text_of(*name) : file.stem().string();
  scenario.schemes = read_schemes(root.need("schemes", "schemes: [dp, zero1, zero2, zero3]"), registry);
  scenario.world = int(integer_of(root.need("world", "world: 8"), 1, 1 << 20));
  const std::vector<std::string> backends = {"simgrid", "threads", "cuda"};
  if (const YamlNode* node = root.find("backend")) scenario.backend = backends[choice_of(*node, backends)];
  if (scenario.backend == "threads" && scenario.world > 1024)
    refuse(*root.find("world"), quoted(root.find("world")->text) + " is out of range; backend: threads has at most 1024 ranks");
  // Threads are the machine at hand: they need no platform, but a wrong one is still wrong.
  if (scenario.backend == "simgrid" || root.find("platform"))
    read_platform(root.need("platform", "platform: platforms/NAME.xml"), scenario, defaults);

  read_knobs(root, scenario, defaults);
  read_model_and_data(root, scenario, defaults);
  read_memory(root, scenario, defaults);

  scenario.steps = int(root.integer_or("steps", 1, 1, 1'000'000));
  if (const YamlNode* node = root.find("seed")) scenario.seed = read_seed(*node);
  else if (scenario.numerics != Numerics::off && (scenario.model.theta0.empty() || scenario.data.x.empty()))
    defaults.push_back("seed: 1");
  if (scenario.backend == "cuda") read_cuda(root, scenario, defaults);
  else
    scenario.fabric = root.value_or("fabric", Fidelity::coupled, "coupled", [](const YamlNode& node) {
      return Fidelity(choice_of(node, {"ring", "coupled", "formula"}));
    });
  scenario.latency = root.value_or("latency", Latency::platform, "platform", [](const YamlNode& node) {
    return Latency(choice_of(node, {"platform", "nccl"}));
  });
  read_collectives(root, scenario);
  if (const YamlNode* node = root.find("ranks")) {
    scenario.folds = Folds(choice_of(*node, {"all", "folded", "auto"}));
    if (scenario.folds == Folds::folded && scenario.backend != "simgrid")
      refuse(*node, "folded: backend: " + scenario.backend + " runs every rank; write ranks: all, or use backend: simgrid");
  }
  if (const YamlNode* node = root.find("launch_queue")) scenario.launch_queue = int(integer_of(*node, 2, 1 << 20));
  if (const YamlNode* node = root.find("hazards")) scenario.checks_hazards = switch_of(*node);
  if (const YamlNode* node = root.find("single_gpu_seconds")) {
    scenario.single_gpu_seconds = seconds_of(*node);
    if (!(scenario.single_gpu_seconds > 0)) refuse(*node, quoted(node->text) + " is out of range; a step takes more than 0s");
  }
  if (const YamlNode* node = root.find("patience")) {
    scenario.patience = seconds_of(*node);
    if (!(scenario.patience >= 0.1 && scenario.patience <= 1e6))
      refuse(*node, quoted(node->text) + " is out of range; write 0.1s to 1e6s");
  }
  read_record(root, scenario);
  if (const YamlNode* node = root.find("prices")) scenario.prices = read_prices(*node, scenario);
  read_figures(root, scenario, registry);
  if (const YamlNode* node = root.find("sweep")) read_sweep_block(*node);
  return scenario;
}

}  // namespace shardsim
