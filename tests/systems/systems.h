// Real systems in tests: one by name with its options, the model of the published vectors, and a small one that nothing divides.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "app/scenario_model.h"
#include "property/runs.h"

namespace shardsim::test {

using Words = std::map<std::string, std::string>;

/// The worlds whose bytes are counted message by message. 64 ranks take minutes under AddressSanitizer, and show it nothing that 8
/// do not.
#ifdef __SANITIZE_ADDRESS__
inline const std::vector<int> counted_worlds{1, 2, 3, 8};
#else
inline const std::vector<int> counted_worlds{1, 2, 3, 8, 64};
#endif

/// A scheme with its options by name.
inline SchemeChoice choice_of(const SchemeEntry& entry, const Words& words) {
  Options options(entry.options);
  for (const auto& [name, value] : words) options.set(name, value);
  return {entry, options};
}

inline SchemeResult train(const Scenario& s, const std::string& scheme, const Words& words = {}) {
  const Registry registry = built_in_schemes();
  return run_scheme(s, TrainingSet(s), choice_of(*registry.find(scheme), words));
}

/// GPT-2 Large with 50304 tokens, 4 x 1024 tokens on each of eight ranks, bf16, cost only, two steps.
inline Scenario gpt2_large() {
  Scenario s = small_scenario();
  s.model = {}, s.world = 8, s.steps = 2, s.micro_batch = 4;
  s.transformer = TransformerChoice{};
  s.transformer->shape = find_preset("gpt2-large")->shape;
  s.transformer->shape.vocab = 50304;
  s.transformer->sequence = 1024;
  s.numerics = Numerics::off;
  s.knobs.precision = {Dtype::bf16, Dtype::bf16, Dtype::bf16};
  s.knobs.streams = 3;
  return s;
}

/// Nothing in it divides by 3 or by 8.
inline Scenario thin_gpt2(bool tied = true) {
  Scenario s = small_scenario();
  s.model = {}, s.world = 3, s.steps = 4, s.micro_batch = 2;
  s.transformer = TransformerChoice{};
  TransformerShape& shape = s.transformer->shape;
  shape.family = Family::gpt2, shape.tied = tied, shape.layers = 2, shape.hidden = 20, shape.heads = shape.kv_heads = 4;
  shape.head_dim = 5, shape.ffn = 44, shape.vocab = 29, shape.positions = 12;
  s.transformer->sequence = 8;
  s.knobs.streams = 3;
  return s;
}

/// The parameters of thin_gpt2, tied, in the model's order: tables and last norm, then two blocks.
inline std::vector<std::int64_t> counts_of_thin() {
  std::vector<std::int64_t> counts{29 * 20, 12 * 20, 20, 20};
  for (int block = 0; block < 2; ++block)
    for (const int count : {20, 20, 20 * 60, 60, 20 * 20, 20, 20, 20, 20 * 44, 44, 44 * 20, 20}) counts.push_back(count);
  return counts;
}

/// Elements that member `me` of n sends in a ring's all-reduce: once round, every chunk but the next member's of the first pass and
/// of the second stays in hand once.
inline std::int64_t sent_in_all_reduce(std::int64_t count, int n, int me) {
  const auto chunk = [&](int c) { return (c + 1) * count / n - c * count / n; };
  std::int64_t sent = 0;
  for (int hop = 0; hop < n - 1; ++hop) sent += chunk(((me - 1 - hop) % n + n) % n) + chunk(((me - hop) % n + n) % n);
  return sent;
}

/// A rank's collectives of a step, in the order of their ends.
inline std::vector<Span> collectives_of(const SchemeResult& result, int step, int rank = 0) {
  const RankResult& books = result.ranks[std::size_t(rank)];
  std::vector<Span> found;
  for (const Span& span : books.spans)
    if (span.op == Span::collective && span.end > books.step_begin[std::size_t(step)] &&
        span.end <= books.step_end[std::size_t(step)])
      found.push_back(span);
  return found;
}

/// Rank 0's collectives of one kind in the last step, in the order of their ends; with control, its control messages.
inline std::vector<Span> collectives(const SchemeResult& result, Verb verb, bool control = false) {
  std::vector<Span> found;
  for (const Span& span : collectives_of(result, result.steps - 1))
    if (span.control == control && (control || span.verb == verb)) found.push_back(span);
  return found;
}

inline std::int64_t bytes_of_all(const std::vector<Span>& spans) {
  std::int64_t bytes = 0;
  for (const Span& span : spans) bytes += span.size;
  return bytes;
}

/// The most of a band that rank 0 holds at once.
inline std::int64_t most(const SchemeResult& result, Band band) {
  std::int64_t held = 0, worst = 0;
  for (const LedgerEntry& entry : result.ranks[0].entries) {
    if (entry.band == band) held += entry.bytes;
    worst = std::max(worst, held);
  }
  return worst;
}

/// The same seconds, bytes on the wire and peaks, on every rank and to the bit: what numerics may not change.
inline void check_same_costs(const SchemeResult& a, const SchemeResult& b) {
  REQUIRE(a.ranks.size() == b.ranks.size());
  for (std::size_t r = 0; r < a.ranks.size(); ++r) {
    CHECK(a.ranks[r].step_end == b.ranks[r].step_end);
    CHECK(a.ranks[r].traffic_bytes == b.ranks[r].traffic_bytes);
    CHECK(a.ranks[r].peak.bytes == b.ranks[r].peak.bytes);
  }
}

/// The largest relative difference of two sets of numbers; none may be empty.
inline double worst_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  REQUIRE(!a.empty());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(double(a[i]) / double(b[i]) - 1));
  return worst;
}

}  // namespace shardsim::test
