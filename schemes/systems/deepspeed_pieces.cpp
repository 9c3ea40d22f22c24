// deepspeed_pieces: cuts and borders.
#include "systems/deepspeed_pieces.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace shardsim {

DeepSpeedPieces::DeepSpeedPieces(const std::vector<Dim>& counts, const std::vector<int>& order, Group owners)
    : owners_(owners), all_(counts.size()) {
  Dim at;
  for (std::size_t place = 0; place < order.size(); ++place) {
    const int p = order[place];
    const Dim count = counts[std::size_t(p)];
    all_[std::size_t(p)] = {count, (count.charged() + owners_.size - 1) / owners_.size, at, place};
    at = at + own_padded(p);
  }
}

Dim DeepSpeedPieces::cut(int p, const Group& ranks, int member) const {
  const Dim count = all_[std::size_t(p)].count;
  return count.part(std::min(member * size(p, ranks), count.charged()));
}

Dim DeepSpeedPieces::padded(int p, const Group& ranks, int member) const {
  const Dim own = piece(p, ranks, member);
  return own + Dim(size(p, ranks) - own.charged(), 0);
}

Borders DeepSpeedPieces::borders_of(const std::vector<int>& parameters, const Group& ranks) const {
  std::vector<Dim> borders{none};
  for (int member = 0; member < ranks.size; ++member) {
    borders.push_back(borders.back());
    for (const int p : parameters) borders.back() = borders.back() + padded(p, ranks, member);
  }
  return std::make_shared<const std::vector<Dim>>(std::move(borders));
}

void DeepSpeedPieces::sort(std::vector<int>& parameters) const {
  std::sort(parameters.begin(), parameters.end(), [this](int a, int b) { return place(a) < place(b); });
}

}  // namespace shardsim
