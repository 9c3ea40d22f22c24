// Facts: the table, and who wins over whom: table, platform, calibration, scenario.
#include <doctest/doctest.h>

#include <map>
#include <set>
#include <stdexcept>

#include "cost/facts.h"
#include "cost/gpus.h"

using namespace shardsim;
using doctest::Approx;

namespace {

using Said = std::map<std::string, std::string>;

Gpu gpu_of(const std::string& name, const Said& said, const cost::Prices& prices = {}) {
  return cost::resolved(
      name,
      [&said](const char* fact) {
        const auto found = said.find(fact);
        return found == said.end() ? nullptr : found->second.c_str();
      },
      prices);
}

std::string refusal(const std::string& name, const Said& said, const cost::Prices& prices = {}) {
  try {
    gpu_of(name, said, prices);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

Origin origin_of(const Gpu& gpu, const char* fact) { return gpu.origins[cost::facts_named(fact).at(0)]; }

const Said needed = {{"memory", "80GiB"}, {"memory_bandwidth", "2TBps"}, {"fp32_flops", "50Tf"}, {"bf16_flops", "100Tf"}};

}  // namespace

TEST_CASE("every GPU of the table resolves by its key and its name, with all that prices need and a source") {
  std::set<std::string> keys;
  for (const cost::GpuRow& row : cost::gpu_table()) {
    INFO(row.key);
    CHECK(keys.insert(row.key).second);
    CHECK(cost::find_gpu(row.name) == &row);
    const Gpu gpu = gpu_of(row.key, {});
    CHECK(gpu.bf16_flops > gpu.fp32_flops);
    CHECK(gpu.memory_bandwidth > 5e11);
    CHECK(gpu.memory_bytes > std::int64_t{20} << 30);
    CHECK(gpu.multiprocessors >= 80);
    CHECK((gpu.gemm_efficiency > 0.4 && gpu.gemm_efficiency <= 1.15));
    CHECK((gpu.memory_efficiency > 0.7 && gpu.memory_efficiency < 1));
    CHECK((gpu.attention_64.flops > 1e13 && gpu.attention_128.flops < gpu.bf16_flops));
    CHECK(gpu.kernel_seconds > 0);
    CHECK(gpu.launch_seconds > 0);
    CHECK(std::string(row.source).size() > 5);
    CHECK((row.pcie >= 3 && row.pcie <= 5));
    for (const std::string& kernel : cost::attention_kernels(row)) {
      cost::Prices prices;
      prices.attention = kernel;
      CHECK(gpu_of(row.key, {}, prices).attention == kernel);
    }
  }
  CHECK(cost::find_gpu("h100") == cost::find_gpu("H100 SXM"));
  CHECK(cost::find_gpu("rtx pro 6000") == cost::find_gpu("rtx-pro-6000"));
  CHECK(cost::find_gpu("h99") == nullptr);
}

TEST_CASE("a fact is taken from the table, the platform over it, the calibration over that, the scenario over all") {
  CHECK(gpu_of("h100-sxm", {}).gemm_efficiency == 0.65);
  CHECK(origin_of(gpu_of("h100-sxm", {}), "gemm_efficiency") == Origin::table);
  Said said = {{"gemm_efficiency", "0.6"}, {"contention", "3"}};
  const Gpu platform = gpu_of("h100-sxm", said);
  CHECK(platform.gemm_efficiency == 0.6);
  CHECK(origin_of(platform, "gemm_efficiency") == Origin::platform);
  CHECK(origin_of(platform, "contention") == Origin::platform);
  CHECK(origin_of(platform, "multiprocessors") == Origin::table);
  CHECK(origin_of(platform, "jitter") == Origin::nobody);

  const std::size_t e = cost::facts_named("gemm_efficiency")[0], jitter = cost::facts_named("jitter")[0];
  cost::Prices prices;
  prices.values = {{e, 0.58, Origin::calibrated}};
  CHECK(gpu_of("h100-sxm", said, prices).gemm_efficiency == 0.58);
  CHECK(origin_of(gpu_of("h100-sxm", said, prices), "gemm_efficiency") == Origin::calibrated);
  prices.values.push_back({e, 0.7, Origin::scenario});
  prices.values.push_back({jitter, 0.008, Origin::scenario});
  const Gpu scenario = gpu_of("h100-sxm", said, prices);
  CHECK(scenario.gemm_efficiency == 0.7);
  CHECK(origin_of(scenario, "gemm_efficiency") == Origin::scenario);
  CHECK(scenario.jitter == 0.008);

  const std::string text = cost::facts_beyond_platform(scenario);
  CHECK_MESSAGE(text.find("scenario: gemm_efficiency 0.7, jitter 0.008; table: ") == 0, text);
  CHECK_MESSAGE(text.find("contention") == std::string::npos, text);  // the platform's
  CHECK_MESSAGE(text.find("multiprocessors 132") != std::string::npos, text);
}

TEST_CASE("an unknown GPU brings its own facts; the others cost nothing") {
  const Gpu gpu = gpu_of("mine", needed);
  CHECK(gpu.name == "mine");
  CHECK(gpu.memory_bytes == std::int64_t{80} << 30);
  CHECK(gpu.multiprocessors == 0);
  CHECK(gpu.contention == 0);
  CHECK(gpu.attention_128.flops == 0);
  CHECK(gpu.gemm_efficiency == 1);
  CHECK(cost::facts_beyond_platform(gpu).empty());
  for (const auto& [fact, value] : needed) {
    Said less = needed;
    less.erase(fact);
    const std::string text = refusal("mine", less);
    CHECK_MESSAGE(text.find(fact + ": missing") == 0, text);
    CHECK_MESSAGE(text.find("h100-sxm") != std::string::npos, text);
  }
}

TEST_CASE("another GPU in the platform's place does not inherit what the platform says about its own") {
  cost::Prices prices;
  prices.gpu = "b200";
  const Gpu gpu = gpu_of("h100-sxm", {{"gemm_efficiency", "0.6"}}, prices);
  CHECK(gpu.name == "B200");
  CHECK(gpu.gemm_efficiency == 0.48);
  prices.gpu = "b300000";
  CHECK(refusal("h100-sxm", {}, prices).find("known GPUs: ") != std::string::npos);
}

TEST_CASE("an attention kernel whose speed is unknown on a GPU is refused with the known ones") {
  cost::Prices prices;
  prices.attention = "fa3";
  CHECK(gpu_of("h100-sxm", {}, prices).attention_128.flops == 520e12);
  CHECK(origin_of(gpu_of("h100-sxm", {}, prices), "attention_128_flops") == Origin::scenario);
  const std::string text = refusal("a100-sxm-80gb", {}, prices);
  CHECK_MESSAGE(text.find("'fa3' on GPU a100-sxm-80gb is not known (known there: unfused, triton, fa1, fa2)") != std::string::npos,
                text);
  CHECK(refusal("mine", needed, prices).find("attention_flops") != std::string::npos);
}

TEST_CASE("attention_flops means heads of either size, also in a platform") {
  CHECK(cost::facts_named("attention_flops").size() == 2);
  CHECK(cost::facts_named("attention_64_flops").size() == 1);
  CHECK(cost::facts_named("attention").empty());
  const Gpu gpu = gpu_of("h100-sxm", {{"attention_flops", "350Tf"}, {"attention_64_flops", "300Tf"}});
  CHECK(gpu.attention_128.flops == 350e12);
  CHECK(gpu.attention_64.flops == 300e12);  // said more exactly
}

TEST_CASE("facts are read with their unit and within their range, and written as they are read") {
  const auto parsed = [](const char* name, const char* text) {
    return cost::parse_fact(cost::facts()[cost::facts_named(name).at(0)], text);
  };
  CHECK(parsed("gemm_efficiency", "65%") == Approx(0.65));
  CHECK(parsed("gemm_efficiency", "1.15") == 1.15);
  CHECK(parsed("jitter", "0.8%") == Approx(0.008));
  CHECK(parsed("launch_seconds", "5us") == Approx(5e-6));
  CHECK(parsed("launch_seconds", "0") == 0);
  for (const auto& [name, text] : std::map<const char*, const char*>{{"gemm_efficiency", "0"},
                                                                     {"memory_efficiency", "1.1"},
                                                                     {"memory_bandwidth", "3000"},
                                                                     {"memory", "80 apples"},
                                                                     {"multiprocessors", "1.5"},
                                                                     {"contention", "-1"},
                                                                     {"jitter", "nan"},
                                                                     {"output_write", "much"}}) {
    INFO(name);
    CHECK_THROWS_AS(parsed(name, text), std::invalid_argument);
  }
  for (const cost::GpuRow& row : cost::gpu_table()) {
    const Gpu gpu = gpu_of(row.key, {});
    for (const cost::Fact& fact : cost::facts())
      if (fact.get(gpu) > 0)
        CHECK(cost::parse_fact(fact, cost::fact_text(fact, fact.get(gpu))) == Approx(fact.get(gpu)).epsilon(1e-3));
  }
}
