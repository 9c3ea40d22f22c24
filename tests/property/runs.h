// Runs for the property tests: a small scenario in C++, a scheme by name, and what the closed forms say about it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "app/run.h"
#include "platforms.h"

namespace shardsim::test {

/// Eight ideal GPUs, a perceptron of three layers (no width a power of two), fp32, units of a layer.
Scenario small_scenario();
SchemeResult run(const Scenario&, const std::string& scheme);
/// The message of the IllegalStep that the run ends with; empty if it ends well.
std::string illegal(const Scenario&, const std::string& scheme);
/// The same for a scheme that is not built in.
std::string illegal(const Scenario&, const SchemeEntry&);

std::uint64_t hash_of(const std::vector<float>&);
std::int64_t padded_parameters(const SchemeResult&);
/// Bytes that each rank sends per step by the closed form of the scheme's name, from its padded units.
std::int64_t closed_form_bytes(const Scenario&, const std::string& scheme, const SchemeResult&);
/// Bytes of a band at a peak, or held between steps.
std::int64_t resident_of(const RankResult&, Band);
const std::vector<std::string>& schemes();

}  // namespace shardsim::test
