// deepspeed_pieces: how stage 3 cuts the model: each parameter by itself, in as many equal pieces as there are ranks that share it;
// the last ones may be shorter, or empty, and are padded.
//
// Source: DeepSpeed 0.19.2, deepspeed/runtime/zero/partition_parameters.py (_partition_param).
#pragma once
#include <cstdint>
#include <vector>

#include "core/image.h"
#include "core/mesh.h"

namespace shardsim {

class DeepSpeedPieces {
 public:
  DeepSpeedPieces() = default;
  /// `counts`: elements of all parameters; `order`: in which a rank's own pieces lie, one behind the other; `owners`: the ranks
  /// that share one copy of the model.
  DeepSpeedPieces(const std::vector<Dim>& counts, const std::vector<int>& order, Group owners);

  const Group& owners() const { return owners_; }
  /// Elements of a piece with its padding, where `ranks` share the parameter. Fewer ranks have larger pieces.
  std::int64_t size(int p, const Group& ranks) const { return all_[std::size_t(p)].size * (owners_.size / ranks.size); }
  /// Where a member's piece begins; how much of the parameter is in it; the same with its padding, which has no real numbers.
  Dim cut(int p, const Group& ranks, int member) const;
  Dim piece(int p, const Group& ranks, int member) const { return cut(p, ranks, member + 1) - cut(p, ranks, member); }
  Dim padded(int p, const Group& ranks, int member) const;
  Dim own_cut(int p) const { return cut(p, owners_, owners_.me); }
  Dim own_piece(int p) const { return piece(p, owners_, owners_.me); }
  Dim own_padded(int p) const { return padded(p, owners_, owners_.me); }
  /// Where the own piece lies among all own pieces.
  Dim at(int p) const { return all_[std::size_t(p)].at; }
  /// Of parameters whose padded pieces lie member by member, and parameter by parameter within a member.
  Borders borders_of(const std::vector<int>& parameters, const Group& ranks) const;
  /// Into the order in which own pieces lie.
  void sort(std::vector<int>& parameters) const;
  std::size_t place(int p) const { return all_[std::size_t(p)].place; }

 private:
  struct Parameter {
    Dim count;
    std::int64_t size = 0;
    Dim at;
    std::size_t place = 0;
  };
  Group owners_;
  std::vector<Parameter> all_;
};

}  // namespace shardsim
