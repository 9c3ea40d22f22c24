// Ledger: every byte a rank holds, over time, with its band, its unit and its cause; and the composition at the worst instants.
#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/band.h"
#include "core/composition.h"
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

/// The worst instant of a quantity, and what was held then.
struct Peak {
  std::int64_t bytes = 0;
  double seconds = 0;
  Composition parts;
  std::int64_t of(Band) const;
};

/// True for the bands that `model_state_peak` counts: param, grad, opt, gathered, bucket.
constexpr bool is_model_state(Band band) { return band != Band::activation && band != Band::workspace; }

/// A rank's memory as its allocator and the driver see it, beside the sums of what was asked for. Bytes, over the whole run.
struct AllocatorBooks {
  bool emulated = false;                                                ///< false: exact, what is asked for is what is held
  std::int64_t requested = 0, allocated = 0, active = 0, reserved = 0;  ///< peaks, each at its own worst instant
  std::int64_t allocated_now = 0;                                       ///< between steps: PyTorch's memory_allocated there
  // When `reserved` came to its peak: handed out, by band; freed, but another stream may still use it; cached.
  std::array<std::int64_t, band_count> bands{};
  std::int64_t awaiting = 0, cached = 0;
  std::int64_t expandable = 0;     ///< what growing segments would reserve: every stream's and pool's own peak, in whole pages
  std::int64_t retries = 0;        ///< how often the cache was given back to make room
  std::int64_t out_of_memory = 0;  ///< the first request that found no room even so; the run went on as if there were; 0: none
  bool has_outside = false;        ///< `outside` is known
  std::int64_t outside = 0;        ///< context and communicators
  int communicators = 0;           ///< that this rank used
};

class Ledger {
 public:
  /// `shared`: by the ledgers of one thread, whose ranks hold the same.
  explicit Ledger(bool keeps_entries = true, Compositions* shared = nullptr) : shared_(shared), keeps_entries_(keeps_entries) {}
  void hold(const LedgerEntry& entry) { window_.push_back(entry); }

  /// Folds what came since the last fold into the peaks. Entries may have come out of order (streams are billed in batches):
  /// they are sorted by time here; entries of one instant keep the order in which they came. What is not before the date waits:
  /// more may come that is as early.
  void fold(double before = std::numeric_limits<double>::infinity());

  // All of these speak of what has been folded.
  std::int64_t held() const { return held_; }
  std::int64_t held(Band) const;
  const Composition& parts() const { return parts_; }
  const Peak& peak() const { return peak_; }                          ///< everything
  const Peak& model_state_peak() const { return model_state_peak_; }  ///< param + grad + opt + gathered + bucket
  const std::vector<LedgerEntry>& entries() const { return entries_; }

  void keep(const AllocatorBooks& books) { allocator_ = books; }
  const AllocatorBooks& allocator() const { return allocator_; }

 private:
  Composition of(std::vector<Part>) const;
  std::vector<LedgerEntry> window_, entries_;
  Composition parts_;  // by band, unit and cause
  Compositions* shared_;
  std::int64_t held_ = 0, model_state_ = 0;
  Peak peak_, model_state_peak_;
  AllocatorBooks allocator_;
  bool keeps_entries_;
};

}  // namespace shardsim
