// Ledger: every byte a rank holds, over time, with its band, its unit and its cause; and the composition at the worst instants.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "core/band.h"
#include "core/stream.h"

namespace shardsim {

/// One allocation (bytes > 0) or release (bytes < 0), at the instant the stream got there.
struct LedgerEntry {
  double seconds;
  std::int64_t bytes;
  Band band;
  Verb cause;  ///< the verb that allocated
  std::int32_t unit;
};

/// A part of what is held: `bytes` of `band`, for `unit`, allocated by `cause`.
struct Part {
  Band band;
  std::int32_t unit;
  Verb cause;
  std::int64_t bytes;
};

/// The worst instant of a quantity, and what was held then.
struct Peak {
  std::int64_t bytes = 0;
  double seconds = 0;
  std::vector<Part> parts;
  std::int64_t of(Band) const;
};

/// True for the bands that `model_state_peak` counts: param, grad, opt, gathered, bucket.
constexpr bool is_model_state(Band band) { return band != Band::activation && band != Band::workspace; }

class Ledger {
 public:
  explicit Ledger(bool keeps_entries = true) : keeps_entries_(keeps_entries) {}
  void hold(const LedgerEntry& entry) { window_.push_back(entry); }

  /// Folds what came since the last fold into the peaks. Entries may have come out of order (streams are billed in batches):
  /// they are sorted by time here; entries of one instant keep the order in which they came.
  void fold();

  // All of these speak of what has been folded.
  std::int64_t held() const { return held_; }
  std::int64_t held(Band) const;
  std::vector<Part> parts() const;
  const Peak& peak() const { return peak_; }                          ///< everything
  const Peak& model_state_peak() const { return model_state_peak_; }  ///< param + grad + opt + gathered + bucket
  const std::vector<LedgerEntry>& entries() const { return entries_; }

 private:
  using Key = std::tuple<Band, std::int32_t, Verb>;
  std::vector<LedgerEntry> window_, entries_;
  std::map<Key, std::int64_t> by_key_;
  std::int64_t held_ = 0, model_state_ = 0;
  Peak peak_, model_state_peak_;
  bool keeps_entries_;
};

}  // namespace shardsim
