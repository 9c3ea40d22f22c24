// Archive: a result as bytes, to hand it from a forked process to its parent, or from one node to another. Both are the same
// program, so trivially copyable structs go as they are.
#pragma once
#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "app/result.h"
#include "app/share.h"
#include "cost/facts.h"

namespace shardsim {

class Archive {
 public:
  Archive() = default;
  explicit Archive(std::string bytes) : bytes_(std::move(bytes)), reading_(true) {}
  const std::string& bytes() const& { return bytes_; }
  std::string bytes() && { return std::move(bytes_); }

  /// Writes or reads, whichever the archive is for.
  template <class T>
  void operator()(T& value) {
    if constexpr (std::is_trivially_copyable_v<T>) raw(&value, sizeof value);
    else value_of(value);
  }

 private:
  template <class T>
  void value_of(std::vector<T>& values) {
    std::size_t size = values.size();
    (*this)(size);
    if (reading_) values.resize(size);
    if constexpr (std::is_trivially_copyable_v<T>) raw(values.data(), size * sizeof(T));
    else
      for (T& value : values) (*this)(value);
  }
  /// Ranks mostly hold the same: what one of the last few compositions was is written as its number.
  void value_of(Composition& parts) {
    const std::size_t first = known_.size() > 8 ? known_.size() - 8 : 0;
    std::size_t number = std::size_t(std::find(known_.begin() + std::ptrdiff_t(first), known_.end(), parts) - known_.begin());
    (*this)(number);
    if (number == known_.size()) {
      std::vector<Part> all(parts.begin(), parts.end());
      value_of(all);
      known_.push_back(reading_ ? Composition(std::move(all)) : parts);
    }
    if (reading_) parts = known_[number];
  }
  void value_of(std::string& text) {
    std::vector<char> characters(text.begin(), text.end());
    value_of(characters);
    text.assign(characters.begin(), characters.end());
  }
  void value_of(Peak& peak) { (*this)(peak.bytes), (*this)(peak.seconds), (*this)(peak.parts); }
  void value_of(LinkLoad& load) { (*this)(load.link), (*this)(load.bytes); }
  void value_of(TimelineEntry& e) {
    (*this)(e.trigger), (*this)(e.what), (*this)(e.bytes), (*this)(e.lane), (*this)(e.waits_for), (*this)(e.frees);
  }
  void value_of(cost::PriceNote& n) { (*this)(n.verb), (*this)(n.name), (*this)(n.words), (*this)(n.count), (*this)(n.seconds); }
  void value_of(Gpu& g) {
    (*this)(g.name);
    for (const cost::Fact& fact : cost::facts()) {
      double value = fact.get(g);
      (*this)(value);
      fact.set(g, value);
    }
    (*this)(g.origins), (*this)(g.attention), (*this)(g.stack);
  }
  void value_of(RankResult& r) {
    (*this)(r.rank), (*this)(r.ranks), (*this)(r.stands_for);
    (*this)(r.losses), (*this)(r.loss_scales), (*this)(r.updates), (*this)(r.step_begin), (*this)(r.step_end), (*this)(r.peak),
        (*this)(r.model_state_peak), (*this)(r.resident), (*this)(r.allocator), (*this)(r.host_peak), (*this)(r.host_resident),
        (*this)(r.crossed);
    (*this)(r.traffic_bytes), (*this)(r.control_bytes), (*this)(r.unsteady), (*this)(r.spans), (*this)(r.waits),
        (*this)(r.host_step_begin), (*this)(r.entries), (*this)(r.allocator_history);
  }
  void value_of(SchemeResult& r) {
    (*this)(r.scheme), (*this)(r.backend), (*this)(r.world), (*this)(r.steps), (*this)(r.first_steady), (*this)(r.shard),
        (*this)(r.has_closed_forms), (*this)(r.shards), (*this)(r.parameters);
    (*this)(r.padding), (*this)(r.unit_parameters), (*this)(r.unit_names), (*this)(r.ranks), (*this)(r.folding), (*this)(r.theta),
        (*this)(r.links), (*this)(r.gpu);
    (*this)(r.interrupted), (*this)(r.notes), (*this)(r.noted_rank), (*this)(r.noted_for), (*this)(r.timeline);
  }
  void value_of(ThetaPiece& piece) { (*this)(piece.unit), (*this)(piece.begin), (*this)(piece.count), (*this)(piece.values); }
  void value_of(Share& share) { (*this)(share.result), (*this)(share.units), (*this)(share.theta); }

  void raw(void* at, std::size_t size) {
    if (!reading_) {
      // Room for the little that follows gigabytes: it would have them copied.
      if (bytes_.capacity() - bytes_.size() < size) bytes_.reserve((bytes_.size() + size) / 8 * 9);
      return void(bytes_.append(static_cast<const char*>(at), size));
    }
    if (size > 0) std::memcpy(at, bytes_.data() + position_, size);
    position_ += size;
  }
  std::vector<Composition> known_;
  std::string bytes_;
  std::size_t position_ = 0;
  bool reading_ = false;
};

}  // namespace shardsim
