// Group: the ranks of one collective; Mesh: how replicas and shards divide the world.
#pragma once
#include <array>

namespace shardsim {

/// The ranks first, first + stride, ... (size of them), seen by its member number `me`.
struct Group {
  int first = 0, stride = 1, size = 1, me = 0;
  int rank(int member) const { return first + member * stride; }
  /// The same ranks, whoever of them sees it.
  bool operator==(const Group& o) const { return first == o.first && stride == o.stride && size == o.size; }
};

/// ranks = replicas x shards. Data parallel is N x 1, ZeRO is 1 x N, HSDP is R x S; the shards of a replica are neighbours.
struct Mesh {
  Group world, replicas, shards;

  static Mesh of(int rank, int world, int shards) {
    const int replica = rank / shards, shard = rank % shards;
    return {{0, 1, world, rank}, {shard, shards, world / shards, replica}, {replica * shards, 1, shards, shard}};
  }
  /// In the same order for every rank.
  std::array<Group, 3> groups() const { return {world, replicas, shards}; }
};

}  // namespace shardsim
