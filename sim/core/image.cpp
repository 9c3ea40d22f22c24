// Image: the parameter that a border cuts is found by its charged begin.
#include "core/image.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace shardsim {

Image::Image(const std::vector<Dim>& counts) : begins_{none} {
  for (const Dim count : counts) begins_.push_back(begins_.back() + count);
}

Dim Image::at(std::int64_t charged) const {
  if (charged < 0) throw std::out_of_range("offset " + std::to_string(charged) + " of a flat vector");
  const auto next = std::upper_bound(begins_.begin(), begins_.end(), charged,
                                     [](std::int64_t offset, Dim begin) { return offset < begin.charged(); });
  const Dim begin = *(next - 1);
  if (next == begins_.end()) return begin + Dim(charged - begin.charged(), 0);
  return begin + (*next - begin).part(charged - begin.charged());
}

Borders Image::slices(std::int64_t charged, int n) const {
  if (charged % n != 0 || charged < count().charged())
    throw std::invalid_argument("a vector of " + std::to_string(count().charged()) + " elements, padded to " +
                                std::to_string(charged) + ", is not " + std::to_string(n) + " equal slices");
  std::vector<Dim> borders;
  for (int c = 0; c <= n; ++c) borders.push_back(at(charged / n * c));
  return std::make_shared<const std::vector<Dim>>(std::move(borders));
}

}  // namespace shardsim
