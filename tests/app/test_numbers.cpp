// Numbers in a scenario: every key that there is, found through what the program itself says it knows, is given what is no number.
#include <doctest/doctest.h>

#include <cctype>
#include <sstream>

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
  const std::string said = folder.refusal(scenario, {key.empty() ? "zzz=1" : key + "={zzz: 1}"});
  std::vector<std::string> keys;
  if (const std::size_t at = said.find(known); at != std::string::npos)
    for (const std::string& word : words_of(said.substr(at + known.size()))) keys.push_back(key.empty() ? word : key + "." + word);
  return keys;
}

}  // namespace

TEST_CASE("no key takes what is no finite number for one") {
  const test::ScenarioFolder folder;
  int tried = 0;
  for (const std::string& scenario : scenarios) {
    REQUIRE(folder.refusal(scenario) == "accepted");
    std::vector<std::string> keys = keys_below(folder, scenario, "");
    REQUIRE(keys.size() > 25);
    for (std::size_t i = 0; i < keys.size(); ++i) {  // it grows
      const std::string key = keys[i];
      if (key == "name" || key == "sweep" || key.ends_with(".source")) continue;         // may be any text
      if (key.starts_with("expect.zero") || key.starts_with("measured.zero")) continue;  // as of dp
      const std::vector<std::string> below = keys_below(folder, scenario, key);
      keys.insert(keys.end(), below.begin(), below.end());
      REQUIRE(keys.size() < 1000);
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
  }
  CHECK(tried > 3000);
}

TEST_CASE("a share is said as a ratio or as a percentage") {
  const test::ScenarioFolder folder;
  const std::string& gpt2 = scenarios[1];
  for (const char* key : {"model.hidden_dropout", "model.attention_dropout", "memory.garbage_collection_threshold",
                          "platform.nic_efficiency", "prices.gemm_efficiency", "prices.jitter"}) {
    CAPTURE(key);
    for (const char* value : {"=0.1", "=10%"}) CHECK(folder.refusal(gpt2, {std::string(key) + value}) == "accepted");
    for (const char* value : {"=-10%", "=%", "=ten%"}) CHECK(folder.refusal(gpt2, {std::string(key) + value}) != "accepted");
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
