// RealHeads: where the heads of an attention stand in a row of qkv, in real numbers.
#pragma once
#include <cassert>

#include "numerics/arithmetic.h"

namespace shardsim::numerics {

/// A row of qkv is [q heads | k heads | v heads]; query head i uses key/value head i / (count / kv).
struct RealHeads {
  std::int64_t count, kv, sequence;
  std::int64_t row;    ///< numbers in a row of qkv
  std::int64_t width;  ///< numbers in a head

  RealHeads(const Heads& heads, Dim cols)
      : count(real(heads.count)), kv(real(heads.kv)), sequence(real(heads.sequence)), row(real(cols)), width(0) {
    if (row == 0) return;
    assert(kv > 0 && count % kv == 0 && row % (count + 2 * kv) == 0);
    width = row / (count + 2 * kv);
  }
  std::int64_t shared_by() const { return count / kv; }  ///< query heads of a key/value head

  // The first number of query head i, of the key head that it uses, of the value head.
  std::int64_t q(std::int64_t i) const { return i * width; }
  std::int64_t k(std::int64_t i) const { return (count + i / shared_by()) * width; }
  std::int64_t v(std::int64_t i) const { return (count + kv + i / shared_by()) * width; }

  /// The row of token `t` (counted over all sequences) of head i among split heads: sequence by sequence, head by head.
  std::int64_t split_row(std::int64_t t, std::int64_t i) const { return (t / sequence * count + i) * sequence + t % sequence; }
};

}  // namespace shardsim::numerics
