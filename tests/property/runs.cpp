// Runs for the property tests.
#include "runs.h"

#include <cstring>

#include "core/error.h"

namespace shardsim::test {

Scenario small_scenario() {
  // One file for the whole program: every run of it needs the same eight GPUs.
  static const PlatformFile platform{IdealGpus{}};
  Scenario s;
  s.name = "small";
  s.platform = platform.path();
  s.world = 4;
  s.model.widths = {5, 13, 11, 3};
  s.data.rows = 64;
  s.micro_batch = 3;
  s.steps = 3;
  s.knobs.adam.lr = 0.01f;
  s.knobs.units = {Cut::Kind::layer, 0};
  return s;
}

SchemeResult run(const Scenario& scenario, const std::string& scheme) {
  const Registry registry = built_in_schemes();
  return run_scheme(scenario, TrainingSet(scenario), *registry.find(scheme));
}

std::string illegal(const Scenario& scenario, const SchemeEntry& scheme) {
  try {
    run_scheme(scenario, TrainingSet(scenario), scheme);
  } catch (const IllegalStep& error) {
    return error.what();
  }
  return {};
}

std::string illegal(const Scenario& scenario, const std::string& scheme) {
  const Registry registry = built_in_schemes();
  return illegal(scenario, *registry.find(scheme));
}

std::uint64_t hash_of(const std::vector<float>& theta) {
  std::uint64_t hash = 14695981039346656037u;
  for (float value : theta) {
    unsigned char bytes[4];
    std::memcpy(bytes, &value, 4);
    for (unsigned char byte : bytes) hash = (hash ^ byte) * 1099511628211u;
  }
  return hash;
}

std::int64_t padded_parameters(const SchemeResult& result) { return result.parameters + result.padding; }

std::int64_t closed_form_bytes(const Scenario& scenario, const std::string& scheme, const SchemeResult& result) {
  const std::int64_t n = scenario.world, a = scenario.knobs.accumulation;
  const std::int64_t param = bytes_of(scenario.knobs.precision.param), reduce = bytes_of(scenario.knobs.precision.reduce);
  const std::int64_t once = padded_parameters(result) / n * (n - 1);  // elements that one pass over the model sends
  if (scheme == "dp") return 2 * once * reduce;
  if (scheme == "zero1") return once * reduce + once * param;
  if (scheme == "zero2") return a * once * reduce + once * param;
  if (scheme == "zero3") return a * once * reduce + 2 * a * once * param;
  return a * once * reduce + a * once * param;  // zero3_keep
}

std::int64_t resident_of(const RankResult& rank, Band band) {
  std::int64_t bytes = 0;
  for (const Part& part : rank.resident)
    if (part.band == band) bytes += part.bytes;
  return bytes;
}

const std::vector<std::string>& schemes() {
  static const std::vector<std::string> names{"dp", "zero1", "zero2", "zero3", "zero3_keep"};
  return names;
}

}  // namespace shardsim::test
