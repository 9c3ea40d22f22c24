// Fifo: a queue in one piece of memory. Streams push and pop millions of entries; a deque would ask for memory every few of them.
#pragma once
#include <cstddef>
#include <utility>
#include <vector>

namespace shardsim::simgrid_backend {

/// A ring as large as the queue has ever been, rounded up to a power of two. Pushing may move the items: keep no reference to one
/// across a push. What is popped is overwritten later.
template <class T>
class Fifo {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  T& front() { return items_[first_]; }
  const T& front() const { return items_[first_]; }
  T& back() { return items_[place(size_ - 1)]; }
  const T& operator[](std::size_t i) const { return items_[place(i)]; }

  void push_back(T item) {
    if (size_ == items_.size()) grow();
    items_[place(size_++)] = std::move(item);
  }
  /// The first `count` items go.
  void pop(std::size_t count) { first_ = place(count), size_ -= count; }

 private:
  std::size_t place(std::size_t i) const { return (first_ + i) & (items_.size() - 1); }
  void grow() {
    std::vector<T> larger(items_.empty() ? 8 : 2 * items_.size());
    for (std::size_t i = 0; i < size_; ++i) larger[i] = std::move(items_[place(i)]);
    items_ = std::move(larger), first_ = 0;
  }
  std::vector<T> items_;
  std::size_t first_ = 0, size_ = 0;
};

}  // namespace shardsim::simgrid_backend
