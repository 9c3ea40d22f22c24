// IssueOrder: one queue of open collectives per group; each rank's k-th has to match the k-th of the others.
#include "core/issue_order.h"

#include <string>

#include "core/error.h"

namespace shardsim {
namespace {

std::string in_words(Verb verb, Label label, Lane lane, std::int64_t bytes, int root) {
  std::string text = name_of(verb);
  text += label.unit < 0 ? "()" : "(unit " + std::to_string(label.unit) + ")";
  if (is_rooted(verb)) text += " with root " + std::to_string(root);
  return text + " of " + std::to_string(bytes) + " bytes on the " + name_of(lane) + " stream";
}

[[noreturn]] void too_few(int finished, std::uint64_t count, int waiting, const std::string& what) {
  throw IllegalStep("rank " + std::to_string(finished) + " finished after " + std::to_string(count) + " collectives, but rank " +
                    std::to_string(waiting) + " issued one more, " + what +
                    ": all ranks of a group have to issue the same collectives");
}

}  // namespace

void IssueOrder::issue(int rank, const Group& group, Lane lane, Verb verb, Label label, std::int64_t bytes, int root) {
  const std::lock_guard lock(mutex_);
  History& history = histories_[{group.first, group.stride, group.size}];
  if (history.count.empty()) {
    history.group = group;
    history.count.resize(group.size);
    history.finished.resize(group.size);
    for (int member = 0; member < group.size; ++member) {
      history.finished[member] = std::size_t(group.rank(member)) < finished_.size() && finished_[group.rank(member)];
      history.any_finished |= history.finished[member];
    }
  }
  const std::uint64_t mine = history.count[group.me]++;
  for (int member = 0; history.any_finished && member < group.size; ++member)
    if (history.finished[member] && history.count[member] <= mine)
      too_few(group.rank(member), history.count[member], rank, in_words(verb, label, lane, bytes, root));
  const std::uint64_t position = mine - history.closed;
  if (position == history.open.size()) {
    history.open.push_back({verb, lane, label, bytes, root, rank});
  } else {
    Issued& first = history.open[position];
    if (first.verb != verb || first.lane != lane || first.bytes != bytes || first.root != root || first.label.unit != label.unit)
      throw IllegalStep("ranks issue different collectives: as number " + std::to_string(mine + 1) + " of its group, rank " +
                        std::to_string(rank) + " issues " + in_words(verb, label, lane, bytes, root) + " where rank " +
                        std::to_string(first.rank) + " issued " +
                        in_words(first.verb, first.label, first.lane, first.bytes, first.root) +
                        "; step() must not depend on the rank");
    ++first.ranks;
  }
  while (!history.open.empty() && history.open.front().ranks == group.size) history.open.pop_front(), ++history.closed;
}

void IssueOrder::finish(int rank) {
  const std::lock_guard lock(mutex_);
  if (finished_.size() <= std::size_t(rank)) finished_.resize(rank + 1);
  finished_[rank] = true;
  for (auto& [key, history] : histories_) {
    const int distance = rank - history.group.first, member = distance / history.group.stride;
    if (distance < 0 || member >= history.group.size || history.group.rank(member) != rank) continue;
    history.finished[member] = history.any_finished = true;
    const std::uint64_t count = history.count[member];
    if (count < history.closed + history.open.size()) {
      const Issued& next = history.open[count - history.closed];
      too_few(rank, count, next.rank, in_words(next.verb, next.label, next.lane, next.bytes, next.root));
    }
  }
}

}  // namespace shardsim
