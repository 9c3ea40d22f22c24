// RealHeads: where the heads of an attention stand in a row of qkv and among split heads, in real numbers.
#pragma once
#include <cassert>
#include <cstdint>

#include "core/op.h"
#include "numerics/both.h"
#include "numerics/real.h"

namespace shardsim::numerics {

/// A row of qkv is [q heads | k heads | v heads]; query head i uses key/value head i / (count / kv). Split heads stand sequence by
/// sequence, head by head, token by token.
struct RealHeads {
  std::int64_t count, kv, sequence;
  std::int64_t row;    ///< numbers in a row of qkv
  std::int64_t width;  ///< numbers in a head

  RealHeads(const Heads& heads, Dim cols)
      : count(Real::of(heads.count)), kv(Real::of(heads.kv)), sequence(Real::of(heads.sequence)), row(Real::of(cols)), width(0) {
    if (row == 0) return;
    assert(kv > 0 && count % kv == 0 && row % (count + 2 * kv) == 0);
    width = row / (count + 2 * kv);
  }
  SHARDSIM_BOTH std::int64_t shared_by() const { return count / kv; }  ///< query heads of a key/value head

  // The first number of query head i, of the key head that it uses, of the value head.
  SHARDSIM_BOTH std::int64_t q(std::int64_t i) const { return i * width; }
  SHARDSIM_BOTH std::int64_t k(std::int64_t i) const { return (count + i / shared_by()) * width; }
  SHARDSIM_BOTH std::int64_t v(std::int64_t i) const { return (count + kv + i / shared_by()) * width; }

  /// The row of token `t` (counted over all sequences) of head i among split heads.
  SHARDSIM_BOTH std::int64_t split_row(std::int64_t t, std::int64_t i) const {
    return (t / sequence * count + i) * sequence + t % sequence;
  }
  /// Of number `at` among split heads: its token, its head, its place in the head.
  struct Place {
    std::int64_t token, head, number;
  };
  SHARDSIM_BOTH Place place(std::int64_t at) const {
    const std::int64_t line = at / width, batch = line / sequence;
    return {batch / count * sequence + line % sequence, batch % count, at % width};
  }
};

}  // namespace shardsim::numerics
