// How an attention is cut into query tiles, and the sizes that both of its passes begin with.
#pragma once
#include <algorithm>

#include "backends/cuda/heads.h"

namespace shardsim::cuda {

/// A query tile: rows [begin, begin + rows) of every head, which see the keys [0, seen).
struct QueryTile {
  std::int64_t begin, rows, seen;
};

/// The rows of a tile: as many as let the scores of all heads have 32 Mi numbers, at most 256, at least 16. Smaller tiles compute
/// less of what no query sees, and leave more of it in the cache, but are more launches.
inline std::int64_t tile_rows(std::int64_t heads, std::int64_t sequence) {
  const std::int64_t fit = (std::int64_t(32) << 20) / std::max<std::int64_t>(1, heads * sequence);
  return std::clamp<std::int64_t>(fit, 16, 256);
}
inline QueryTile tile_at(std::int64_t begin, std::int64_t rows, std::int64_t sequence) {
  const std::int64_t end = std::min(begin + rows, sequence);
  return {begin, end - begin, end};
}

/// What both passes are about: the heads, how many tokens there are, heads of all sequences, and rows of a tile.
struct AttentionSizes {
  RealHeads heads;
  Dtype type;
  std::int64_t tokens, batch, rows;

  template <class Op>
  explicit AttentionSizes(const Op& o)
      : heads(o.heads, o.qkv.cols),
        type(o.qkv.dtype()),
        tokens(real(o.qkv.rows)),
        batch(tokens / heads.sequence * heads.count),
        rows(tile_rows(batch, heads.sequence)) {}
  std::int64_t scores() const { return batch * std::min(rows, heads.sequence) * heads.sequence; }  ///< of a tile
};

}  // namespace shardsim::cuda
