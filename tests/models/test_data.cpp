// The data of a training run: which rows a rank gets, and numbers that are the same on any machine.
#include <doctest/doctest.h>

#include <cmath>

#include "models/data.h"

using namespace shardsim;

namespace {

/// Row i of x is {i}, of y {10 i, 10 i + 1}.
Data counted(int rows) {
  std::vector<float> x, y;
  for (int row = 0; row < rows; ++row) {
    x.push_back(float(row));
    y.push_back(float(10 * row)), y.push_back(float(10 * row + 1));
  }
  return {x, 1, y, 2};
}

std::vector<float> rows_of(const Data& data, const Data::Place& place) {
  std::vector<float> x, y;
  data.fill(place, x, y);
  return x;
}

}  // namespace

TEST_CASE("step t, rank r of N uses rows (t N + r) B and the B - 1 after it") {
  // t = 2, N = 3, r = 1, B = 2: (2 * 3 + 1) * 2 = 14.
  CHECK(rows_of(counted(100), {2, 0, 1, 1, 3, 2}) == std::vector<float>{14, 15});
}

TEST_CASE("micro-batch a of A uses rows ((t A + a) N + r) B and the B - 1 after it") {
  // t = 1, A = 4, a = 3, N = 2, r = 1, B = 3: ((4 + 3) * 2 + 1) * 3 = 45.
  CHECK(rows_of(counted(100), {1, 3, 4, 1, 2, 3}) == std::vector<float>{45, 46, 47});
}

TEST_CASE("rows wrap around the data set, inside a batch too, and y follows x") {
  std::vector<float> x, y;
  counted(5).fill({1, 0, 1, 1, 2, 2}, x, y);  // (2 + 1) * 2 = 6: rows 6 mod 5 and 7 mod 5
  CHECK(x == std::vector<float>{1, 2});
  CHECK(y == std::vector<float>{10, 11, 20, 21});
  CHECK(rows_of(counted(5), {0, 0, 1, 1, 2, 4}) == std::vector<float>{4, 0, 1, 2});
  CHECK(rows_of(counted(1), {7, 0, 1, 0, 1, 3}) == std::vector<float>{0, 0, 0});
}

TEST_CASE("the ranks of a step use every row once") {
  std::vector<float> all;
  for (int micro = 0; micro < 2; ++micro)
    for (int rank = 0; rank < 4; ++rank)
      for (float row : rows_of(counted(24), {0, micro, 2, rank, 4, 3})) all.push_back(row);
  for (int i = 0; i < 24; ++i) CHECK(all[std::size_t(i)] == float(i));
}

TEST_CASE("seeded parameters are uniform in +-sqrt(3/fan-in), with biases of zero") {
  const std::vector<float> theta = seeded_theta({16, 25, 4}, 1);
  REQUIRE(theta.size() == 16 * 25 + 25 + 25 * 4 + 4);
  double sum = 0, largest = 0;
  for (int i = 0; i < 400; ++i)
    sum += double(theta[std::size_t(i)]), largest = std::max(largest, std::abs(double(theta[std::size_t(i)])));
  CHECK(largest <= 0.4331);  // sqrt(3 / 16)
  CHECK(largest > 0.42);
  CHECK(std::abs(sum / 400) < 0.05);  // two standard deviations of the mean, each number's being 0.25: 2 * 0.25 / sqrt(400) = 0.025
  for (int i = 400; i < 425; ++i) CHECK(theta[std::size_t(i)] == 0.f);
  for (int i = 425; i < 525; ++i) CHECK(std::abs(theta[std::size_t(i)]) <= 0.3465f);  // sqrt(3 / 25)
}

TEST_CASE("a seed gives the same numbers always, and another seed others") {
  CHECK(seeded_theta({3, 2}, 7) == seeded_theta({3, 2}, 7));
  CHECK(seeded_theta({3, 2}, 7) != seeded_theta({3, 2}, 8));
  // As computed by an independent splitmix64 in Python.
  const std::vector<float> theta = seeded_theta({4, 1}, 1);
  const float expected[] = {-0.2743026316165924f, 0.18944326043128967f, 0.7588726282119751f, 0.4213647246360779f};
  for (int i = 0; i < 4; ++i) CHECK(theta[std::size_t(i)] == expected[i]);
}

TEST_CASE("the teacher's answers are those of its network") {
  // Widths {1, 1}: y = w x, so all ratios are the same w.
  const Data data = Data::from_teacher({1, 1}, 50, 3);
  std::vector<float> x, y;
  data.fill({0, 0, 1, 0, 1, 50}, x, y);
  REQUIRE(data.rows() == 50);
  for (std::size_t i = 1; i < 50; ++i) CHECK(double(y[i]) * double(x[0]) == doctest::Approx(double(y[0]) * double(x[i])));
  // Widths {1, 1, 1}: |y| <= |w2| <= sqrt(3), and odd in x.
  Data::from_teacher({1, 1, 1}, 50, 3).fill({0, 0, 1, 0, 1, 50}, x, y);
  for (std::size_t i = 0; i < 50; ++i) CHECK(std::abs(y[i]) <= 1.7321f);
}
