// Share: one time for all ranks, one theta.
#include "app/share.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "app/archive.h"
#include "numerics/theta.h"

namespace shardsim {
namespace {

void begin_at(RankResult& rank, double start) {
  for (auto* times : {&rank.step_begin, &rank.step_end, &rank.host_step_begin})
    for (double& seconds : *times) seconds -= start;
  for (Peak* peak : {&rank.peak, &rank.model_state_peak, &rank.host_peak}) peak->seconds -= start;
  for (Span& span : rank.spans) span.begin -= start, span.end -= start, span.issue_begin -= start, span.issue_end -= start;
  for (HostWait& wait : rank.waits) wait.begin -= start, wait.end -= start;
  for (LedgerEntry& entry : rank.entries) entry.seconds -= start;
  for (AllocatorEvent& event : rank.allocator_history) event.seconds -= start;
}

}  // namespace

SchemeResult whole_of(std::vector<Share> shares) {
  SchemeResult whole = std::move(shares.front().result);
  std::vector<std::vector<ThetaPiece>> theta = std::move(shares.front().theta);
  for (auto share = shares.begin() + 1; share != shares.end(); ++share) {
    std::move(share->result.ranks.begin(), share->result.ranks.end(), std::back_inserter(whole.ranks));
    std::move(share->theta.begin(), share->theta.end(), std::back_inserter(theta));
  }
  double start = std::numeric_limits<double>::infinity();
  for (const RankResult& rank : whole.ranks) start = std::min(start, rank.step_begin.empty() ? 0.0 : rank.step_begin[0]);
  for (RankResult& rank : whole.ranks) begin_at(rank, start);
  if (!theta.empty()) whole.theta = numerics::assembled_theta(shares.front().units, theta);
  return whole;
}

SchemeResult whole_of(Share own, const Crew& crew) {
  std::vector<Share> shares;
  if (!crew.gather) {
    shares.push_back(std::move(own));
    return whole_of(std::move(shares));
  }
  Archive written;
  written(own);
  for (std::string& bytes : crew.gather(written.bytes())) {
    Archive read(std::move(bytes));
    read(shares.emplace_back());
  }
  if (!shares.empty()) return whole_of(std::move(shares));
  own.result.ranks.clear();
  return std::move(own.result);
}

}  // namespace shardsim
