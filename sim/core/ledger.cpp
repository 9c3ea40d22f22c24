// Ledger: sorts a window of entries by time and walks it, keeping the composition at the peaks.
#include "core/ledger.h"

#include <algorithm>

namespace shardsim {

std::int64_t Peak::of(Band band) const {
  std::int64_t sum = 0;
  for (const Part& part : parts)
    if (part.band == band) sum += part.bytes;
  return sum;
}

std::int64_t Ledger::held(Band band) const {
  std::int64_t sum = 0;
  for (const auto& [key, bytes] : by_key_)
    if (std::get<Band>(key) == band) sum += bytes;
  return sum;
}

std::vector<Part> Ledger::parts() const {
  std::vector<Part> parts;
  for (const auto& [key, bytes] : by_key_)
    if (bytes != 0) parts.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), bytes});
  return parts;
}

void Ledger::fold() {
  std::stable_sort(window_.begin(), window_.end(),
                   [](const LedgerEntry& a, const LedgerEntry& b) { return a.seconds < b.seconds; });
  // Find the two worst instants first and copy a composition once for each, not at every new maximum.
  std::int64_t held = held_, state = model_state_;
  std::size_t worst = window_.size(), worst_state = window_.size();
  std::int64_t top = peak_.bytes, top_state = model_state_peak_.bytes;
  for (std::size_t i = 0; i < window_.size(); ++i) {
    held += window_[i].bytes;
    if (is_model_state(window_[i].band)) state += window_[i].bytes;
    if (held > top) top = held, worst = i;
    if (state > top_state) top_state = state, worst_state = i;
  }
  for (std::size_t i = 0; i < window_.size(); ++i) {
    const LedgerEntry& entry = window_[i];
    by_key_[{entry.band, entry.unit, entry.cause}] += entry.bytes;
    if (i == worst) peak_ = {top, entry.seconds, parts()};
    if (i == worst_state) {
      model_state_peak_ = {top_state, entry.seconds, parts()};
      std::erase_if(model_state_peak_.parts, [](const Part& part) { return !is_model_state(part.band); });
    }
  }
  held_ = held, model_state_ = state;
  if (keeps_entries_) entries_.insert(entries_.end(), window_.begin(), window_.end());
  window_.clear();
}

}  // namespace shardsim
