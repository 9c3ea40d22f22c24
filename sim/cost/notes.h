// PriceNotes: the prices that one rank was charged, each with its formula and the numbers in it, in the order of their first use.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/stream.h"

namespace shardsim::cost {

struct PriceNote {
  Verb verb = Verb::bind;
  std::string name;   ///< of the op or the collective
  std::string words;  ///< the formula with the numbers in it
  int count = 0;
  double seconds = 0;  ///< of all of them
};

class PriceNotes {
 public:
  void add(Verb verb, const std::string& name, const std::string& words, double seconds) {
    const auto [found, is_new] = positions_.try_emplace({verb, words}, notes_.size());
    if (is_new) notes_.push_back({verb, name, words, 0, 0});
    PriceNote& note = notes_[found->second];
    ++note.count;
    note.seconds += seconds;
  }
  void clear() { positions_.clear(), notes_.clear(); }
  const std::vector<PriceNote>& all() const { return notes_; }

 private:
  std::map<std::pair<Verb, std::string>, std::size_t> positions_;
  std::vector<PriceNote> notes_;
};

}  // namespace shardsim::cost
