// Numbers in a scenario: every key that there is, found through what the program itself says it knows, is given what is no number.
#include <doctest/doctest.h>

#include <cctype>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <tuple>

#include "app/scenarios.h"

using namespace shardsim;

namespace {

/// Scenarios that have, between them, every map that a scenario can have, so that a key is not refused for a missing neighbour.
const std::string common =
    "platform: {nodes: 4, gpus_per_node: 2, gpu: h100-sxm, nic: 400Gbps, topology: fat-tree, nodes_per_leaf: 2}\nworld: "
    "8\nschemes: [dp]\n"
    "mesh: {replicas: 2, shards: 4}\nmeasured: {source: me, dp: {step_seconds: 1s}}\nexpect: {dp: {traffic: {about: 2, within: "
    "1%}}}\n"
    "latency: nccl\nunits: {bucket: 25MB}\n";
const std::vector<std::string> scenarios = {
    common +
        "model: {kind: mlp, widths: [8, 4]}\ndata: {teacher: {rows: 8}}\nnumerics: {mode: twin, width: 4}\n"
        "precision: {param: fp16, loss_scale: {init_scale: 8}}\noptimizer: {lr_schedule: {warmup_steps: 1, cosine_steps: "
        "2}}\nmemory: {allocator: torch}\n",
    common +
        "model: {kind: gpt2, layers: 2, hidden: 32, heads: 4, vocab: 300, attention: explicit, recompute: {every: 1}}\n"
        "data: {language: {successors: 2}}\nnumerics: {mode: twin}\nmemory: {allocator: torch, communicator: {channels: 2}}\n",
    common + "model: {kind: llama, layers: 2, hidden: 32, heads: 4, vocab: 300}\nmemory: {allocator: torch}\nnumerics: off\n"};

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word.substr(word.find_first_not_of(' ')));
  return words;
}

/// The keys that may stand below `key`, as a refusal tells them; of the root where it is empty.
std::vector<std::string> keys_below(const test::ScenarioFolder& folder, const std::string& scenario, const std::string& key) {
  const std::string known = "known keys: ";
  const std::size_t kind = scenario.find("kind: ");  // a model has the keys of its kind
  const std::string of_kind = key == "model" ? scenario.substr(kind, scenario.find(',', kind) + 2 - kind) : "";
  const std::string said = folder.refusal(scenario, {key.empty() ? "zzz=1" : key + "={" + of_kind + "zzz: 1}"});
  std::vector<std::string> keys;
  if (const std::size_t at = said.find(known); at != std::string::npos)
    for (const std::string& word : words_of(said.substr(at + known.size()))) keys.push_back(key.empty() ? word : key + "." + word);
  return keys;
}

/// All keys of a scenario that do not take any text.
std::vector<std::string> all_keys(const test::ScenarioFolder& folder, const std::string& scenario) {
  std::vector<std::string> keys = keys_below(folder, scenario, "");
  REQUIRE(keys.size() > 25);
  for (std::size_t i = 0; i < keys.size(); ++i) {  // it grows
    const std::vector<std::string> below = keys_below(folder, scenario, keys[i]);
    keys.insert(keys.end(), below.begin(), below.end());
    REQUIRE(keys.size() < 1000);
  }
  std::erase_if(keys, [](const std::string& key) {
    return key == "name" || key == "sweep" || key.ends_with(".source") || key.starts_with("expect.zero") ||
           key.starts_with("measured.zero");  // as of dp
  });
  return keys;
}

bool accepts(const test::ScenarioFolder& folder, const std::string& scenario, const std::string& override) {
  return folder.refusal(scenario, {override}) == "accepted";
}

}  // namespace

TEST_CASE("no key takes what is no finite number for one") {
  const test::ScenarioFolder folder;
  int tried = 0;
  for (const std::string& scenario : scenarios) {
    REQUIRE(folder.refusal(scenario) == "accepted");
    for (const std::string& key : all_keys(folder, scenario))
      for (const std::string value : {"nan", ".nan", "-.Inf", "1e999", "nanB", "inf%", "1e308TB", "0x1p3"}) {
        const std::string said = folder.refusal(scenario, {key + "=" + value});
        INFO(key << ": " << value << ": " << said);
        CHECK(said != "accepted");
        CHECK(said.find(key.substr(0, key.find('.'))) != std::string::npos);
        CHECK(said.find('\n') == std::string::npos);
        if (!std::isdigit(value[0])) CHECK(said.find("beyond") == std::string::npos);  // it is no number at all
        ++tried;
      }
  }
  CHECK(tried > 3000);
}

TEST_CASE("whatever is a share, and nothing else, is said as a ratio or as a percentage") {
  const test::ScenarioFolder folder;
  const std::set<std::string> facts = {"gemm_efficiency",         "memory_efficiency",          "jitter",
                                       "attention_forward_share", "attention_64_forward_share", "attention_128_forward_share"};
  std::set<std::string> shares = {"model.hidden_dropout",
                                  "model.attention_dropout",
                                  "memory.garbage_collection_threshold",
                                  "platform.nic_efficiency",
                                  "optimizer.lr_schedule.min_lr_ratio",
                                  "expect.dp.traffic.within"};
  for (const std::string& fact : facts) shares.insert({"prices." + fact, "prices.calibrated." + fact});
  std::set<std::string> found;
  for (const std::string& scenario : scenarios)
    for (const std::string& key : all_keys(folder, scenario)) {
      INFO(key);
      const bool is_share = accepts(folder, scenario, key + "=10%");
      if (!is_share) continue;
      CHECK(shares.count(key) == 1);
      found.insert(key);
      for (const char* value : {"=0.1", "=10 %"}) CHECK(accepts(folder, scenario, key + value));
      for (const char* wrong : {"=-10%", "=-0.1", "=%", "=ten%", "=5", "=500%", "=10%%", "=nan%", "=1e999%"}) {
        INFO(wrong);
        const std::string said = folder.refusal(scenario, {key + wrong});
        CHECK_MESSAGE(said.starts_with("--set " + key + ": "), said);
        CHECK(said.find('\n') == std::string::npos);
      }
    }
  for (const std::string& share : shares) CHECK_MESSAGE(found.count(share) == 1, share);
}

TEST_CASE("a share as a percentage is the same number as its ratio") {
  const test::ScenarioFolder folder;
  const auto number = [&](const std::string& word) {
    const Scenario scenario = folder.read(scenarios[word.starts_with("optimizer") || word.starts_with("expect") ? 0 : 1], {word});
    std::ifstream platform(scenario.platform);
    const std::string machine(std::istreambuf_iterator<char>(platform), {});
    const TransformerPlan plan = scenario.transformer.value_or(TransformerChoice()).plan;
    return std::tuple(plan.hidden_dropout, plan.attention_dropout, scenario.memory.options.garbage_collection_threshold,
                      scenario.knobs.schedule.floor, scenario.expect.at("dp").front().within,
                      scenario.prices.values.empty() ? 0 : scenario.prices.values.front().value, machine);
  };
  for (const std::string key :
       {"model.hidden_dropout", "model.attention_dropout", "memory.garbage_collection_threshold", "platform.nic_efficiency",
        "optimizer.lr_schedule.min_lr_ratio", "expect.dp.traffic.within", "prices.gemm_efficiency", "prices.jitter"}) {
    INFO(key);
    CHECK(number(key + "=12.5%") == number(key + "=0.125"));
    CHECK(number(key + "=12.5%") != number(key + "=0.25"));
  }
}

TEST_CASE("what cannot be negative is refused below 0") {
  const test::ScenarioFolder folder;
  for (const char* word :
       {"single_gpu_seconds=-5s", "single_gpu_seconds=0s", "measured.dp.step_seconds=-1s", "expect.dp.peak_bytes=-1MiB",
        "expect.dp.traffic=-1", "patience=-1s", "prices.host_memory=-1GiB", "prices.jitter=-1%"}) {
    CAPTURE(word);
    CHECK(folder.refusal(scenarios[0], {word}).starts_with("--set " + std::string(word).substr(0, std::string(word).find('='))));
  }
}
