// nearest: of known names, the one that a wrong one may stand for.
#pragma once
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace shardsim {

/// How many letters have to be put in, left out or changed.
inline std::size_t letters_apart(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j)
      diagonal = std::exchange(row[j + 1], std::min({row[j] + 1, row[j + 1] + 1, diagonal + (a[i] != b[j])}));
  }
  return row.back();
}

/// The first of the nearest, if it is no more than so many letters apart; else empty.
inline std::string nearest(const std::string& name, const std::vector<std::string>& known, std::size_t most) {
  const auto found = std::min_element(known.begin(), known.end(), [&](const std::string& a, const std::string& b) {
    return letters_apart(name, a) < letters_apart(name, b);
  });
  return found != known.end() && letters_apart(name, *found) <= most ? *found : "";
}

}  // namespace shardsim
