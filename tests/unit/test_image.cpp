// The image of charged borders among the twin's real numbers: every property that plugins rely on.
#include <doctest/doctest.h>

#include <stdexcept>

#include "core/image.h"
#include "numerics/real.h"

using namespace shardsim;

namespace {

std::int64_t real(Dim dim) { return Real::of(dim); }

/// Parameters of a model and of its twin: large and thin, tiny, as large as the model's, and empty.
const std::vector<Dim> twin{{1280 * 3, 32 * 3}, {7, 2}, {1, 1}, {0, 0}, {50, 50}, {13, 0}, {1280, 32}};
const std::vector<Dim> full{{40, 40}, {7, 7}, {0, 0}, {300, 300}};
const std::vector<Dim> off{{40, 0}, {7, 0}, {300, 0}};

}  // namespace

TEST_CASE("a border's image never goes back, and begins and ends where the parameters do") {
  for (const std::vector<Dim>& counts : {twin, full, off}) {
    const Image image(counts);
    CHECK(image.at(0) == none);
    CHECK(image.at(image.count().charged()) == image.count());
    for (std::int64_t at = 0; at < image.count().charged() + 20; ++at) {
      CHECK(image.at(at).charged() == at);
      CHECK(real(image.at(at)) <= real(image.at(at + 1)));
    }
    Dim begin;
    for (int i = 0; i < int(counts.size()); ++i) {
      CHECK(image.begin(i) == begin);
      CHECK(image.at(begin.charged()) == begin);
      begin = begin + counts[i];
      CHECK(image.end(i) == begin);
    }
  }
}

TEST_CASE("inside a parameter the image is the same share of the real numbers, rounded down") {
  const Image image({{10, 4}, {100, 7}});
  const std::int64_t inside_first[] = {0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4};
  for (int i = 0; i <= 10; ++i) CHECK(image.at(i) == Dim(i, inside_first[i]));
  CHECK(image.at(10 + 14) == Dim(24, 4));  // 0.98
  CHECK(image.at(10 + 15) == Dim(25, 5));  // 1.05
  CHECK(image.at(10 + 99) == Dim(109, 10));
  CHECK(image.at(10 + 100) == Dim(110, 11));
}

TEST_CASE("with all numbers real the image is the offset itself, and without numbers it is 0") {
  const Image all(full), none_real(off);
  for (std::int64_t at = 0; at <= all.count().charged(); ++at) CHECK(all.at(at) == Dim(at, at));
  for (std::int64_t at = 0; at <= none_real.count().charged(); ++at) CHECK(none_real.at(at) == Dim(at, 0));
}

TEST_CASE("the padding behind the parameters has no real numbers") {
  const Image image(twin);
  const Dim end = image.count();
  for (int more : {1, 5, 1000}) CHECK(image.at(end.charged() + more) == end + Dim(more, 0));
  CHECK_THROWS_AS(image.at(-1), std::out_of_range);
}

TEST_CASE("however a vector is cut, the pieces of every parameter add up to it") {
  const Image image(twin);
  for (std::int64_t size : {1, 3, 97, 1000, 10000}) {
    CAPTURE(size);
    std::vector<Dim> sums(twin.size());
    for (std::int64_t at = 0; at < image.count().charged(); at += size) {
      const Dim begin = image.at(at), count = image.at(at + size) - begin;
      Dim pieces;
      for (int i = 0; i < int(twin.size()); ++i) {
        const Dim piece = overlap(begin, count, image.begin(i), twin[i]).second;
        sums[i] = sums[i] + piece;
        pieces = pieces + piece;
      }
      CHECK(real(pieces) == real(count));  // the rest of a piece is padding
    }
    CHECK(sums == twin);
  }
}

TEST_CASE("equal charged slices of a padded vector are the borders of a collective") {
  const Image image(twin);
  for (int n : {1, 2, 3, 8, 64}) {
    CAPTURE(n);
    const Dim padded = image.count().padded_to(n);
    const Borders borders = image.slices(padded.charged(), n);
    REQUIRE(borders->size() == std::size_t(n) + 1);
    CHECK(borders->front() == none);
    CHECK(borders->back() == image.at(padded.charged()));
    for (int c = 0; c <= n; ++c) CHECK((*borders)[c] == image.at(padded.charged() / n * c));
  }
  CHECK_THROWS_AS(image.slices(image.count().charged() + 1, 7), std::invalid_argument);
  CHECK_THROWS_AS(image.slices(10, 2), std::invalid_argument);
}

TEST_CASE("the image of a parameter of 1e12 elements does not overflow") {
  const std::int64_t huge = 1'000'000'000'000;
  CHECK(Dim(huge, huge).part(huge - 1) == Dim(huge - 1, huge - 1));
  CHECK(Dim(huge, huge / 2).part(huge - 1) == Dim(huge - 1, huge / 2 - 1));
}

TEST_CASE("shares are as equal as whole elements allow, and equal where the parts divide") {
  CHECK(Dim(10, 3).share(0, 4) == none);
  CHECK(Dim(10, 3).share(1, 4) == Dim(2, 0));
  CHECK(Dim(10, 3).share(2, 4) == Dim(5, 1));
  CHECK(Dim(10, 3).share(3, 4) == Dim(7, 2));
  CHECK(Dim(10, 3).share(4, 4) == Dim(10, 3));
  for (int c = 0; c <= 8; ++c) CHECK(Dim(80, 16).share(c, 8) == c * Dim(80, 16).over(8));
}
