// Storage: a piece of a rank's memory with an explicit life in stream order; Tensor: a trivially copyable view of it.
#pragma once
#include <cstdint>
#include <memory>

#include "core/band.h"
#include "core/dim.h"
#include "core/stream.h"

namespace shardsim {

/// The GPU's memory, or the host's (pinned). An op that touches both crosses the link between them; one that touches the host's
/// alone is the CPU's work. See core/crossing.h.
enum class Place : std::uint8_t { device, host };

struct HazardHistory;  // the hazard checker's notes about one storage

/// Made by a device. `at` may be followed by the device that made it only; it is null when numerics are off.
struct Storage {
  void* at = nullptr;
  Dim count;  ///< elements
  Dtype dtype = Dtype::fp32;
  Band band = Band::workspace;
  int unit = -1;
  Verb cause = Verb::bind;  ///< the verb that allocated it
  std::uint32_t life = 0;   ///< grows when freed: a Tensor of an earlier life is stale
  std::int64_t bytes = 0;   ///< charged
  Place place = Place::device;
  std::shared_ptr<HazardHistory> history;
};

/// A view {storage, offset, rows, cols} of a row-major matrix; a vector is 1 x n. Offsets count elements.
struct Tensor {
  Storage* in = nullptr;
  std::uint32_t life = 0;
  Dim offset, rows, cols;

  Dim count() const { return rows * cols; }
  std::int64_t bytes() const { return count().charged() * bytes_of(in->dtype); }
  Dtype dtype() const { return in->dtype; }
  explicit operator bool() const { return in != nullptr; }

  /// `n` elements from `begin` on, as a vector.
  Tensor slice(Dim begin, Dim n) const { return {in, life, offset + begin, one, n}; }
  /// r x c elements from `begin` on, as a matrix.
  Tensor matrix(Dim begin, Dim r, Dim c) const { return {in, life, offset + begin, r, c}; }
};

}  // namespace shardsim
