// Unit: modules whose parameters are computed on, gathered and reduced together. Bucketing is only a choice of unit.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/dim.h"
#include "core/model.h"

namespace shardsim {

/// How the model is cut into units: the whole model, a unit per module, or modules until a bucket is full.
struct Cut {
  enum class Kind { whole, layer, bucket } kind = Kind::layer;
  std::int64_t bucket_bytes = 0;  ///< of gradient, for Kind::bucket
};

struct Unit {
  int first = 0, last = 0;  ///< modules [first, last)
  Dim begin;                ///< where its parameters begin in the model's flat vector
  Dim count;                ///< parameters
  Dim padded;               ///< rounded up to a multiple of the world, so that all schemes cut the same chunks
};

/// A unit's turn in a pass: the model's visits [first, last), all to the unit's modules.
struct Turn {
  int unit = 0, first = 0, last = 0;
};
/// The turns of a forward pass: neighbouring visits to one unit are one turn.
std::vector<Turn> turns(const Model&, const std::vector<Unit>&);

/// In model order. Buckets are filled from the last module on, in the order in which gradients become ready; a bucket is closed by
/// the module that fills it (PyTorch DDP's rule), and a module is never split.
std::vector<Unit> cut(const Model&, Cut, int world, std::int64_t bytes_per_gradient);

}  // namespace shardsim
