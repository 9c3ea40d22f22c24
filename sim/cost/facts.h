// Fact: each number of a Gpu by name, with its unit and range; and where its value came from: the table, then the platform, then
// the scenario's prices.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/quantity.h"
#include "cost/gpu.h"

namespace shardsim::cost {

struct Fact {
  const char* name;
  Measure measure;
  double low, high;
  /// Taken as 0.65 and as 65%. (A GeForce beats its specification, so that a share of it may be above 1.)
  bool is_share() const { return measure == Measure::number && high <= 2; }
  bool is_needed;  ///< by every GPU; the others have defaults that cost nothing, or are asked for by the op that needs them
  double (*get)(const Gpu&);
  void (*set)(Gpu&, double);
};

std::span<const Fact> facts();
/// "memory, memory_bandwidth, ...": the names that `facts_named` knows.
std::vector<std::string> fact_names();
/// Positions in facts(): one, or the two of `attention_flops`, `attention_half_sequence` and `attention_forward_share`, which stand
/// for the heads of either size. Empty for an unknown name.
std::vector<std::size_t> facts_named(std::string_view name);
/// The value of a fact as people write it: 80GiB, 0.65 or 65%. Throws std::invalid_argument: not a number, wrong or missing unit,
/// out of range.
double parse_fact(const Fact&, std::string_view text);
/// "0.65", "3350GBps", "1.2us".
std::string fact_text(const Fact&, double value);
const char* name_of(Origin);

void set(Gpu&, std::size_t fact, double value, Origin);

/// What a scenario says about its GPUs.
struct Prices {
  struct Value {
    std::size_t fact;
    double value;
    Origin origin;
  };
  std::string gpu, stack, attention;  ///< names, empty if not said: a GPU of the table instead of the platform's, and its software
  std::vector<Value> values;          ///< in the order in which they are set
};

/// A GPU of this name: facts of the table, then `fact(name)` of the platform (null: it says nothing), then the prices. Throws
/// std::invalid_argument in words that fit behind "host 'gpu0': ": a fact that is missing, wrong or does not go with another.
Gpu resolved(const std::string& name, const std::function<const char*(const char*)>& fact, const Prices&);

/// "gemm_efficiency 0.65 (table), ...": what the platform did not say, grouped by origin; empty if it said all.
std::string facts_beyond_platform(const Gpu&);

}  // namespace shardsim::cost
