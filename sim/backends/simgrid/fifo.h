// Fifo: a queue in one piece of memory. Streams push and pop millions of entries; a deque would ask for memory every few of them.
#pragma once
#include <cstddef>
#include <utility>
#include <vector>

namespace shardsim::simgrid_backend {

/// Pushing may move the items: keep no reference to one across a push.
template <class T>
class Fifo {
 public:
  bool empty() const { return first_ == items_.size(); }
  std::size_t size() const { return items_.size() - first_; }
  T& front() { return items_[first_]; }
  T& back() { return items_.back(); }
  const T& operator[](std::size_t i) const { return items_[first_ + i]; }
  auto begin() const { return items_.begin() + std::ptrdiff_t(first_); }
  auto end() const { return items_.end(); }

  void push_back(T item) { items_.push_back(std::move(item)); }
  /// The first `count` items go. Their room is used again once it is the larger half.
  void pop(std::size_t count) {
    first_ += count;
    if (empty()) items_.clear(), first_ = 0;
    if (first_ < 64 || first_ < items_.size() / 2) return;
    items_.erase(items_.begin(), items_.begin() + std::ptrdiff_t(first_));
    first_ = 0;
  }

 private:
  std::vector<T> items_;
  std::size_t first_ = 0;
};

}  // namespace shardsim::simgrid_backend
