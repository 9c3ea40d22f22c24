// What a rank holds over time: sums of its ledger's entries.
#include "formats/held.h"

#include <algorithm>
#include <cmath>

namespace shardsim::formats {

std::vector<Held> held_over_time(std::vector<LedgerEntry> entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  const auto instant = [&](std::size_t i) { return std::llround(entries[i].seconds * 1e9); };
  std::vector<Held> samples;
  Held now{}, largest{};
  for (std::size_t i = 0; i < entries.size(); ++i) {
    now.seconds = entries[i].seconds;
    now.bytes[unsigned(entries[i].band)] += entries[i].bytes;
    now.total += entries[i].bytes;
    if (i == 0 || instant(i - 1) != instant(i) || now.total > largest.total) largest = now;
    if (i + 1 < entries.size() && instant(i + 1) == instant(i)) continue;
    if (largest.total > now.total) samples.push_back(largest);
    samples.push_back(now);
  }
  return samples;
}

}  // namespace shardsim::formats
