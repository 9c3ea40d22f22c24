// Ledger: sorts a window of entries by time and walks it, keeping the composition at the peaks.
#include "core/ledger.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace shardsim {
namespace {

Part& part_of(std::vector<Part>& parts, const LedgerEntry& entry) {
  const auto at = std::lower_bound(parts.begin(), parts.end(), entry, [](const Part& part, const LedgerEntry& wanted) {
    return std::tie(part.band, part.unit, part.cause) < std::tie(wanted.band, wanted.unit, wanted.cause);
  });
  if (at != parts.end() && at->band == entry.band && at->unit == entry.unit && at->cause == entry.cause) return *at;
  return *parts.insert(at, {entry.band, entry.cause, entry.unit, 0});
}

}  // namespace

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

Composition Ledger::of(std::vector<Part> parts) const {
  std::erase_if(parts, [](const Part& part) { return part.bytes == 0; });
  return shared_ ? shared_->of(parts) : Composition(std::move(parts));
}

void Ledger::fold(double before) {
  const auto earlier = [](const LedgerEntry& a, const LedgerEntry& b) { return a.seconds < b.seconds; };
  if (!std::is_sorted(window_.begin(), window_.end(), earlier)) std::stable_sort(window_.begin(), window_.end(), earlier);
  const auto end = std::find_if(window_.begin(), window_.end(), [&](const LedgerEntry& entry) { return entry.seconds >= before; });
  const std::size_t count = std::size_t(end - window_.begin());
  if (count == 0) return;
  // Find the two worst instants first and keep a composition once for each, not at every new maximum.
  std::int64_t held = held_, state = model_state_;
  std::size_t worst = count, worst_state = count;
  std::int64_t top = peak_.bytes, top_state = model_state_peak_.bytes;
  for (std::size_t i = 0; i < count; ++i) {
    held += window_[i].bytes;
    if (is_model_state(window_[i].band)) state += window_[i].bytes;
    if (held > top) top = held, worst = i;
    if (state > top_state) top_state = state, worst_state = i;
  }
  std::vector<Part> parts(parts_.begin(), parts_.end());
  for (std::size_t i = 0; i < count; ++i) {
    const LedgerEntry& entry = window_[i];
    part_of(parts, entry).bytes += entry.bytes;
    if (i == worst) peak_ = {top, entry.seconds, of(parts)};
    if (i != worst_state) continue;
    std::vector<Part> states;
    std::copy_if(parts.begin(), parts.end(), std::back_inserter(states),
                 [](const Part& part) { return is_model_state(part.band); });
    model_state_peak_ = {top_state, entry.seconds, of(std::move(states))};
  }
  held_ = held, model_state_ = state;
  parts_ = of(std::move(parts));
  if (keeps_entries_) entries_.insert(entries_.end(), window_.begin(), end);
  window_.erase(window_.begin(), end);
}

}  // namespace shardsim
