// Storages: what tensors on a device that is simulated or taken down lie in. A free one is used again, and its life counts on.
#pragma once
#include <forward_list>
#include <vector>

#include "core/stream.h"
#include "core/tensor.h"

namespace shardsim::simgrid_backend {

class Storages {
 public:
  /// One with these facts, allocated by the label's verb for its unit; without numbers.
  Storage* take(Label label, Band band, Dim count, Dtype type, std::int64_t bytes, Place place) {
    if (free_.empty()) free_.push_back(&all_.emplace_front());
    Storage* const storage = free_.back();
    free_.pop_back();
    *storage = {.at = nullptr,
                .count = count,
                .dtype = type,
                .band = band,
                .unit = label.unit,
                .cause = label.verb,
                .life = storage->life,
                .bytes = bytes,
                .place = place,
                .history = nullptr};
    return storage;
  }
  void give_back(Storage* storage) { free_.push_back(storage); }
  bool empty() const { return all_.empty(); }
  auto begin() { return all_.begin(); }
  auto end() { return all_.end(); }

 private:
  std::forward_list<Storage> all_;
  std::vector<Storage*> free_;
};

}  // namespace shardsim::simgrid_backend
