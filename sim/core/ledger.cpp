// Ledger: sorts a window of entries by time and walks it, keeping the composition at the peaks.
#include "core/ledger.h"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace shardsim {

std::int64_t Peak::of(Band band) const {
  std::int64_t sum = 0;
  for (const Part& part : parts)
    if (part.band == band) sum += part.bytes;
  return sum;
}

std::int64_t Ledger::held(Band band) const {
  std::int64_t sum = 0;
  for (const Part& part : parts_)
    if (part.band == band) sum += part.bytes;
  return sum;
}

std::vector<Part> Ledger::parts() const {
  std::vector<Part> parts;
  parts.reserve(parts_.size());
  std::copy_if(parts_.begin(), parts_.end(), std::back_inserter(parts), [](const Part& part) { return part.bytes != 0; });
  return parts;
}

Part& Ledger::part_of(const LedgerEntry& entry) {
  const auto at = std::lower_bound(parts_.begin(), parts_.end(), entry, [](const Part& part, const LedgerEntry& wanted) {
    return std::tie(part.band, part.unit, part.cause) < std::tie(wanted.band, wanted.unit, wanted.cause);
  });
  if (at != parts_.end() && at->band == entry.band && at->unit == entry.unit && at->cause == entry.cause) return *at;
  return *parts_.insert(at, {entry.band, entry.cause, entry.unit, 0});
}

void Ledger::fold(double before) {
  const auto earlier = [](const LedgerEntry& a, const LedgerEntry& b) { return a.seconds < b.seconds; };
  if (!std::is_sorted(window_.begin(), window_.end(), earlier)) std::stable_sort(window_.begin(), window_.end(), earlier);
  const auto end = std::find_if(window_.begin(), window_.end(), [&](const LedgerEntry& entry) { return entry.seconds >= before; });
  const std::size_t count = std::size_t(end - window_.begin());
  const auto set = [this](Peak& peak, std::int64_t bytes, double seconds, const auto& counts) {
    peak.bytes = bytes, peak.seconds = seconds;
    peak.parts.clear();  // and its room is used again
    for (const Part& part : parts_)
      if (part.bytes != 0 && counts(part)) peak.parts.push_back(part);
  };
  // Find the two worst instants first and copy a composition once for each, not at every new maximum.
  std::int64_t held = held_, state = model_state_;
  std::size_t worst = count, worst_state = count;
  std::int64_t top = peak_.bytes, top_state = model_state_peak_.bytes;
  for (std::size_t i = 0; i < count; ++i) {
    held += window_[i].bytes;
    if (is_model_state(window_[i].band)) state += window_[i].bytes;
    if (held > top) top = held, worst = i;
    if (state > top_state) top_state = state, worst_state = i;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const LedgerEntry& entry = window_[i];
    part_of(entry).bytes += entry.bytes;
    if (i == worst) set(peak_, top, entry.seconds, [](const Part&) { return true; });
    if (i == worst_state)
      set(model_state_peak_, top_state, entry.seconds, [](const Part& part) { return is_model_state(part.band); });
  }
  held_ = held, model_state_ = state;
  if (keeps_entries_) entries_.insert(entries_.end(), window_.begin(), end);
  window_.erase(window_.begin(), end);
  std::erase_if(parts_, [](const Part& part) { return part.bytes == 0; });
}

}  // namespace shardsim
