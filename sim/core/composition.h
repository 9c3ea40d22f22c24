// Composition: what is held at an instant, part by part. Thousands of ranks hold the same: copies share one list.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "core/band.h"
#include "core/stream.h"

namespace shardsim {

/// `bytes` of `band`, for `unit`, allocated by `cause`.
struct Part {
  Band band;
  Verb cause;
  std::int32_t unit;
  std::int64_t bytes;
  bool operator==(const Part&) const = default;
};

class Composition {
 public:
  Composition() = default;
  Composition(std::vector<Part> parts) {
    if (!parts.empty()) parts_ = std::make_shared<const std::vector<Part>>(std::move(parts));
  }
  Composition(std::initializer_list<Part> parts) : Composition(std::vector<Part>(parts)) {}

  std::size_t size() const { return parts_ ? parts_->size() : 0; }
  bool empty() const { return !parts_; }
  const Part* begin() const { return parts_ ? parts_->data() : nullptr; }
  const Part* end() const { return begin() + size(); }
  const Part& operator[](std::size_t i) const { return (*parts_)[i]; }
  bool operator==(const Composition& o) const { return parts_ == o.parts_ || std::equal(begin(), end(), o.begin(), o.end()); }

 private:
  std::shared_ptr<const std::vector<Part>> parts_;  // null: none
};

/// Knows a list again that was made a short while ago. For one thread.
class Compositions {
 public:
  Composition of(const std::vector<Part>& parts) {
    for (const Composition& known : latest_)
      if (std::equal(known.begin(), known.end(), parts.begin(), parts.end())) return known;
    return latest_[next_++ % latest_.size()] = Composition(parts);
  }

 private:
  std::array<Composition, 8> latest_;
  std::size_t next_ = 0;
};

}  // namespace shardsim
