// Hazards: the vector clocks, and the message that names the missing edge.
#include "core/hazard.h"

#include <algorithm>

#include "core/error.h"

namespace shardsim {
namespace {

std::string in_words(const char* op, Label label, Lane lane) {
  std::string unit = label.unit < 0 ? "" : "unit " + std::to_string(label.unit);
  return std::string(name_of(label.verb)) + "(" + unit + ") " + op + " on the " + name_of(lane) + " stream";
}

}  // namespace

void Hazards::access(Lane lane, const Tensor& tensor, bool /*reads*/, bool writes, const char* op, Label label) {
  if (!on_ || !tensor) return;
  Storage& storage = *tensor.in;
  if (tensor.life != storage.life)
    throw IllegalStep(in_words(op, label, lane) + " uses memory that was freed; free it after its last use");
  if (!storage.history) storage.history = std::make_shared<HazardHistory>();
  auto& accesses = storage.history->accesses;
  const std::int64_t begin = tensor.offset.charged(), end = begin + tensor.count().charged();
  const Clock& mine = clock(lane);
  for (const auto& past : accesses) {
    const bool conflict = (writes || past.write) && past.begin < end && begin < past.end;
    if (!conflict || past.lane == lane || mine[unsigned(past.lane)] >= past.stamp) continue;
    throw IllegalStep(in_words(op, label, lane) + (writes ? " writes " : " reads ") + name_of(storage.band) + " of unit " +
                      std::to_string(storage.unit) + " that " + in_words(past.op, past.label, past.lane) +
                      (past.write ? " may still be writing" : " may still be reading") + "; missing edge: the " + name_of(lane) +
                      " stream has to wait for an event recorded on the " + name_of(past.lane) + " stream after that " + past.op);
  }
  // What this access now stands for: a write for everything in its range, a read for this lane's earlier reads of it.
  std::erase_if(accesses, [&](const HazardHistory::Access& past) {
    return past.begin >= begin && past.end <= end && (writes || (past.lane == lane && !past.write));
  });
  accesses.push_back({begin, end, mine[unsigned(lane)], lane, writes, label, op});
}

void Hazards::record(Lane lane, Event event) {
  if (on_) marks_[unsigned(lane)].push_back({event.at, clock(lane)});
}

void Hazards::wait(Lane lane, Event event) {
  if (!on_ || event.at == 0) return;
  auto& marks = marks_[unsigned(event.lane)];
  auto mark = std::lower_bound(marks.begin(), marks.end(), event.at, [](const Mark& m, std::uint64_t at) { return m.at < at; });
  if (mark == marks.end() || mark->at != event.at) return;  // recorded before the last synchronize: ordered anyway
  for (int i = 0; i < lane_count; ++i) clock(lane)[i] = std::max(clock(lane)[i], mark->clock[i]);
}

void Hazards::synchronize() {
  Clock latest{};
  for (int i = 0; i < lane_count; ++i) latest[i] = clocks_[i][i];
  clocks_.fill(latest);
  for (auto& marks : marks_) marks.clear();
}

}  // namespace shardsim
