// memory_snapshot.pickle: the events of each rank, and the segments and blocks that they leave.
#include "formats/memory_snapshot.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <tuple>

#include "formats/pickle.h"
#include "formats/trace.h"

namespace shardsim::formats {
namespace {

using Action = AllocatorEvent::Action;

const char* name_of(Action action) {
  constexpr const char* names[] = {"segment_alloc", "segment_free",   "segment_map",    "segment_unmap",
                                   "alloc",         "free_requested", "free_completed", "oom"};
  return names[unsigned(action)];
}

/// A rank's addresses, apart from those of others, and in what a double can hold: the viewer is written in JavaScript.
std::int64_t address_in(int rank, std::int64_t address) { return (std::int64_t(rank) << 42) + address; }

/// What lies where after the events.
struct Memory {
  struct Segment {
    std::int64_t size;
    Lane lane;
    bool small, expandable;
  };
  struct Block {
    AllocatorEvent made;
    bool freed = false;  ///< and still used by another stream
  };
  std::map<std::int64_t, Segment> segments;
  std::map<std::int64_t, Block> blocks;

  explicit Memory(const std::vector<AllocatorEvent>& events) {
    for (const AllocatorEvent& event : events) take(event);
  }

 private:
  void take(const AllocatorEvent& e) {
    if (e.action == Action::segment_alloc) segments[e.address] = {e.size, e.lane, e.small, false};
    if (e.action == Action::segment_free) segments.erase(e.address);
    if (e.action == Action::segment_map) map(e);
    if (e.action == Action::segment_unmap) unmap(e);
    if (e.action == Action::alloc) blocks[e.address] = {e};
    if (e.action == Action::free_requested) blocks.at(e.address).freed = true;
    if (e.action == Action::free_completed) blocks.erase(e.address);
  }
  /// Mapped neighbours of one stream are one segment.
  void map(const AllocatorEvent& e) {
    auto at = segments.emplace(e.address, Segment{e.size, e.lane, e.small, true}).first;
    const auto join = [this](auto a, auto b) {
      if (!b->second.expandable || !a->second.expandable || a->second.lane != b->second.lane) return a;
      if (a->second.small != b->second.small || a->first + a->second.size != b->first) return a;
      a->second.size += b->second.size;
      segments.erase(b);
      return a;
    };
    if (const auto next = std::next(at); next != segments.end()) join(at, next);
    if (at != segments.begin()) join(std::prev(at), at);
  }
  void unmap(const AllocatorEvent& e) {
    const auto at = std::prev(segments.upper_bound(e.address));
    Segment rest = at->second;
    const std::int64_t end = at->first + rest.size, behind = e.address + e.size;
    at->second.size = e.address - at->first;
    if (at->second.size == 0) segments.erase(at);
    rest.size = end - behind;
    if (rest.size > 0) segments[behind] = rest;
  }
};

class Snapshot {
 public:
  Snapshot(std::ostream& out, const std::string& scheme, const std::vector<std::string>& unit_names, double origin)
      : pickle_(out), scheme_(scheme), unit_names_(unit_names), origin_(origin) {}

  void write(const std::vector<RankMemory>& ranks) {
    pickle_.begin_dict();
    pickle_.text("segments");
    pickle_.begin_list();
    for (const RankMemory& rank : ranks) write_segments(rank);
    pickle_.text("device_traces");
    pickle_.begin_list();
    int next = 0;
    for (const RankMemory& rank : ranks) {
      for (; next <= rank.rank; ++next) {  // a list per device; empty ones are not shown
        pickle_.begin_list();
        if (next == rank.rank)
          for (const AllocatorEvent& event : rank.events) write_event(rank.rank, event);
        pickle_.append();
      }
    }
    pickle_.end_dict();
    pickle_.end();
  }

 private:
  void text(const char* key, const char* value) { pickle_.text(key), pickle_.text(value); }
  void number(const char* key, std::int64_t value) { pickle_.text(key), pickle_.integer(value); }

  void frame(const char* file, std::int64_t line, const std::string& name) {
    pickle_.begin_dict();
    text("filename", file);
    number("line", line);
    text("name", name.c_str());
    pickle_.end_dict();
    pickle_.append();
  }

  /// From the inside out, as PyTorch does.
  void frames(const AllocatorEvent& e) {
    pickle_.text("frames");
    const auto [known, is_new] = stacks_.try_emplace({e.band, e.unit, e.cause}, 0);
    if (!is_new) return pickle_.recall(known->second);
    pickle_.begin_list();
    known->second = pickle_.remember();
    frame("band", 0, shardsim::name_of(e.band));
    if (e.unit >= 0)
      frame("unit", e.unit,
            std::size_t(e.unit) < unit_names_.size() ? unit_names_[std::size_t(e.unit)] : "unit " + std::to_string(e.unit));
    frame("verb", 0, shardsim::name_of(e.cause));
    frame("scheme", 0, scheme_);
  }

  void write_event(int rank, const AllocatorEvent& e) {
    pickle_.begin_dict();
    text("action", name_of(e.action));
    number("addr", e.action == Action::oom ? 0 : address_in(rank, e.address));
    number("size", e.size);
    number("stream", stream_number(e.lane));
    number("time_us", std::llround((e.seconds - origin_) * 1e6));
    if (e.action == Action::oom) number("device_free", e.held);
    frames(e);
    pickle_.end_dict();
    pickle_.append();
  }

  void write_block(int rank, std::int64_t address, std::int64_t size, const Memory::Block* block) {
    pickle_.begin_dict();
    number("address", address_in(rank, address));
    number("size", size);
    number("requested_size", block ? block->made.size : 0);
    text("state", !block ? "inactive" : block->freed ? "active_pending_free" : "active_allocated");
    if (block) {
      frames(block->made);
    } else {
      pickle_.text("frames");
      pickle_.begin_list();
    }
    pickle_.end_dict();
    pickle_.append();
  }

  void write_segments(const RankMemory& rank) {
    const Memory memory(rank.events);
    for (const auto& [begin, segment] : memory.segments) {
      const std::int64_t end = begin + segment.size;
      const auto first = memory.blocks.lower_bound(begin), last = memory.blocks.lower_bound(end);
      std::int64_t allocated = 0, active = 0, requested = 0;
      for (auto at = first; at != last; ++at) {
        active += at->second.made.held, requested += at->second.made.size;
        if (!at->second.freed) allocated += at->second.made.held;
      }
      pickle_.begin_dict();
      number("device", rank.rank);
      number("address", address_in(rank.rank, begin));
      number("total_size", segment.size);
      number("stream", stream_number(segment.lane));
      text("segment_type", segment.small ? "small" : "large");
      pickle_.text("segment_pool_id");
      pickle_.pair(0, 0);
      number("allocated_size", allocated);
      number("active_size", active);
      number("requested_size", requested);
      pickle_.text("is_expandable");
      pickle_.boolean(segment.expandable);
      pickle_.text("blocks");
      pickle_.begin_list();
      std::int64_t address = begin;
      for (auto at = first; at != last; ++at) {
        if (at->first > address) write_block(rank.rank, address, at->first - address, nullptr);
        write_block(rank.rank, at->first, at->second.made.held, &at->second);
        address = at->first + at->second.made.held;
      }
      if (address < end) write_block(rank.rank, address, end - address, nullptr);
      pickle_.end_dict();
      pickle_.append();
    }
  }

  Pickle pickle_;
  const std::string& scheme_;
  const std::vector<std::string>& unit_names_;
  double origin_;
  std::map<std::tuple<Band, std::int32_t, Verb>, int> stacks_;
};

}  // namespace

std::vector<AllocatorEvent> exact_events(std::vector<LedgerEntry> entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  std::vector<AllocatorEvent> events;
  std::map<std::tuple<Band, std::int32_t, Verb, std::int64_t>, std::deque<std::int64_t>> alive;  // addresses of what is alike
  std::map<std::int64_t, std::vector<std::int64_t>> free;                                        // addresses by size
  std::int64_t next = 1 << 21;
  for (const LedgerEntry& entry : entries) {
    const std::int64_t size = std::abs(entry.bytes);
    if (size == 0) continue;
    std::deque<std::int64_t>& alike = alive[{entry.band, entry.unit, entry.cause, size}];
    if (entry.bytes < 0 && alike.empty()) continue;
    AllocatorEvent event{entry.seconds, 0,          size,        size,           entry.unit, Action::segment_alloc,
                         Lane::compute, entry.band, entry.cause, size <= 1 << 20};
    const auto happens = [&](Action action) { event.action = action, events.push_back(event); };
    if (entry.bytes > 0) {
      std::vector<std::int64_t>& fitting = free[size];
      event.address = fitting.empty() ? next : fitting.back();
      if (fitting.empty()) next += (size + 511) / 512 * 512;
      else fitting.pop_back();
      alike.push_back(event.address);
      happens(Action::segment_alloc), happens(Action::alloc);
    } else {
      event.address = alike.front();
      alike.pop_front();
      free[size].push_back(event.address);
      happens(Action::free_requested), happens(Action::free_completed), happens(Action::segment_free);
    }
  }
  return events;
}

void write_memory_snapshot(std::ostream& out, const std::string& scheme, const std::vector<std::string>& unit_names, double origin,
                           const std::vector<RankMemory>& ranks) {
  Snapshot(out, scheme, unit_names, origin).write(ranks);
}

}  // namespace shardsim::formats
