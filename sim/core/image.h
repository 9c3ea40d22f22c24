// Image: where a border that was decided in charged elements lies among the twin's real numbers.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "core/dim.h"

namespace shardsim {

/// n + 1 offsets into a buffer: slice c is [borders[c], borders[c + 1]). Shared, so that it lives as long as the collectives that
/// use it; null stands for n slices that are equal in both sizes.
using Borders = std::shared_ptr<const std::vector<Dim>>;

/// Parameters laid one behind the other in a flat vector. Partitions, buckets and chunks cut it at charged offsets, anywhere; the
/// real border is the image of the charged one inside the parameter that it cuts, so it is monotone, every parameter begins and
/// ends where it should, and what is cut into pieces adds up again. With numerics: full the image is the offset itself.
class Image {
 public:
  /// `counts` of the parameters, in their order. Padding between parameters is a count whose real size is 0.
  explicit Image(const std::vector<Dim>& counts);

  /// The flat offset of charged element `charged`. Behind the last parameter is padding, which has no real numbers.
  /// Throws std::out_of_range if negative.
  Dim at(std::int64_t charged) const;
  Dim begin(int parameter) const { return begins_[std::size_t(parameter)]; }
  Dim end(int parameter) const { return begins_[std::size_t(parameter) + 1]; }
  /// All parameters, without padding behind them.
  Dim count() const { return begins_.back(); }
  /// The vector, padded to `charged` elements, in n slices of equal charged size: the borders that a reduce-scatter or an
  /// all-gather over it takes. Throws std::invalid_argument if n does not divide `charged`, or the parameters do not fit.
  Borders slices(std::int64_t charged, int n) const;

 private:
  std::vector<Dim> begins_;  // of each parameter, and the end of the last
};

}  // namespace shardsim
