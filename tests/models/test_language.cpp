// Tokens to train on: the synthetic language's entropy by enumeration and by sampling, windows of a text, and who gets which.
#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <stdexcept>

#include "models/language.h"

using namespace shardsim;

namespace {

using Tokens = std::vector<float>;

/// ids and targets in one: a sequence's tokens and the one behind.
struct Batch {
  Tokens ids, targets;
};
Batch batch(const TokenSource& source, const TokenSource::Place& place) {
  Batch got;
  source.fill(place, got.ids, got.targets);
  return got;
}

/// The chance of each token to follow another, by the language's own account.
std::vector<double> chances(const Language& language, std::int64_t token) {
  std::vector<double> row(std::size_t(language.vocab()), 0.0);
  for (int k = 0; k < language.successors(); ++k) row[std::size_t(language.successor(token, k))] += language.probability(k);
  return row;
}

std::string refusal(void (*make)()) {
  try {
    make();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the entropy of four successors is 1.75 bits, of one nothing, of two one bit") {
  const double bit = std::log(2.0);
  CHECK(Language(256, 4, 1).entropy() == doctest::Approx(1.75 * bit).epsilon(1e-15));
  CHECK(Language(256, 1, 1).entropy() == 0);
  CHECK(Language(256, 2, 1).entropy() == doctest::Approx(bit).epsilon(1e-15));
  CHECK(Language(256, 3, 1).entropy() == doctest::Approx(1.5 * bit).epsilon(1e-15));
  // -log2 p is 1, 2, 3, 3 with the chances 1/2, 1/4, 1/8, 1/8: mean square 3.75, so that the variance is 3.75 - 1.75^2.
  CHECK(Language(256, 4, 1).deviation() == doctest::Approx(std::sqrt(3.75 - 1.75 * 1.75) * bit).epsilon(1e-15));
  CHECK(Language(256, 2, 1).deviation() == 0);
}

TEST_CASE("entropy and deviation equal an enumeration over all pairs of tokens") {
  for (const auto& [vocab, successors] : {std::pair{1, 1}, {2, 2}, {5, 3}, {7, 7}, {256, 4}, {300, 64}}) {
    const Language language(vocab, successors, 9);
    double entropy = 0, square = 0;
    for (std::int64_t from = 0; from < vocab; ++from) {
      double sum = 0;
      std::set<std::int64_t> distinct;
      for (double p : chances(language, from)) {
        sum += p;
        if (p > 0) entropy -= p * std::log(p) / vocab, square += p * std::log(p) * std::log(p) / vocab;
      }
      for (int k = 0; k < successors; ++k) distinct.insert(language.successor(from, k));
      REQUIRE(sum == doctest::Approx(1).epsilon(1e-15));
      REQUIRE(distinct.size() == std::size_t(successors));
    }
    CHECK(language.entropy() == doctest::Approx(entropy).epsilon(1e-12));
    CHECK(language.deviation() == doctest::Approx(std::sqrt(std::max(0.0, square - entropy * entropy))).epsilon(1e-6));
  }
}

TEST_CASE("every token follows as often as any other: a model that only counts tokens has the loss log(vocab)") {
  const Language language(50, 4, 3);
  std::vector<double> next(50, 0.0);
  for (std::int64_t from = 0; from < 50; ++from) {
    const std::vector<double> row = chances(language, from);
    for (std::size_t to = 0; to < 50; ++to) next[to] += row[to];
  }
  for (double sum : next) CHECK(sum == doctest::Approx(1).epsilon(1e-15));
}

TEST_CASE("over a million tokens the true model's loss is the entropy, within four standard errors") {
  for (int successors : {2, 4, 8}) {
    const Language language(256, successors, 11);
    const Batch got = batch(language, {0, 0, 1, 0, 1, 1000, 1000});
    REQUIRE(got.ids.size() == 1'000'000);
    std::vector<std::vector<double>> rows;
    for (std::int64_t from = 0; from < 256; ++from) rows.push_back(chances(language, from));
    double loss = 0;
    std::vector<double> often(256, 0.0);
    for (std::size_t i = 0; i < got.ids.size(); ++i) {
      loss -= std::log(rows[std::size_t(got.ids[i])][std::size_t(got.targets[i])]) / 1e6;  // infinite where it cannot follow
      often[std::size_t(got.targets[i])] += 1;
    }
    CHECK(std::abs(loss - language.entropy()) <= 4 * language.deviation() / 1000 + 1e-9);
    // 3906 of each are expected. Neighbours in a sequence depend on each other, so that this is a wide band.
    for (double count : often) CHECK(std::abs(count - 3906) < 1000);
  }
}

TEST_CASE("targets are the next tokens, sequence by sequence") {
  const Language language(256, 4, 1);
  const Batch got = batch(language, {3, 1, 2, 1, 4, 5, 16});
  REQUIRE(got.ids.size() == 80);
  REQUIRE(got.targets.size() == 80);
  for (std::size_t i = 0; i < 80; ++i)
    if (i % 16 != 15) CHECK(got.targets[i] == got.ids[i + 1]);
}

TEST_CASE("ranks, micro-batches, steps and sequences all differ, and no sequence comes twice") {
  const Language language(256, 4, 1);
  std::set<Tokens> seen;
  int sequences = 0;
  for (int step = 0; step < 10; ++step)
    for (int micro = 0; micro < 2; ++micro)
      for (int rank = 0; rank < 5; ++rank) {
        const Tokens ids = batch(language, {step, micro, 2, rank, 5, 3, 40}).ids;
        for (int i = 0; i < 3; ++i, ++sequences) seen.insert(Tokens(ids.begin() + i * 40, ids.begin() + (i + 1) * 40));
      }
  CHECK(seen.size() == std::size_t(sequences));
}

TEST_CASE("a step's sequences are the same, in the same order, for every world, accumulation and micro-batch") {
  const Language language(64, 4, 5);
  const Text text(std::string("a text of thirty-seven bytes, no more"));
  for (const TokenSource* source : {static_cast<const TokenSource*>(&language), static_cast<const TokenSource*>(&text)}) {
    const Batch whole = batch(*source, {2, 0, 1, 0, 1, 24, 7});
    for (const auto& [micro_batches, world] : {std::pair{1, 4}, {2, 3}, {6, 4}, {3, 1}}) {
      Tokens ids, targets;
      for (int micro = 0; micro < micro_batches; ++micro)
        for (int rank = 0; rank < world; ++rank) {
          const Batch part = batch(*source, {2, micro, micro_batches, rank, world, 24 / micro_batches / world, 7});
          ids.insert(ids.end(), part.ids.begin(), part.ids.end());
          targets.insert(targets.end(), part.targets.begin(), part.targets.end());
        }
      CHECK(ids == whole.ids);
      CHECK(targets == whole.targets);
    }
  }
}

TEST_CASE("a language's numbers depend on its seed alone") {
  const TokenSource::Place place{0, 0, 1, 0, 1, 2, 8};
  CHECK(batch(Language(256, 4, 1), place).ids == batch(Language(256, 4, 1), place).ids);
  CHECK(batch(Language(256, 4, 1), place).ids != batch(Language(256, 4, 2), place).ids);
  // As computed by an independent splitmix64 in Python.
  CHECK(batch(Language(256, 4, 1), {0, 0, 1, 0, 1, 1, 8}).ids == Tokens{238, 37, 68, 86, 130, 114, 12, 185});
}

TEST_CASE("a longer sequence begins with the shorter one") {
  const Language language(256, 4, 1);
  const Tokens shorter = batch(language, {0, 0, 1, 0, 1, 1, 8}).ids, longer = batch(language, {0, 0, 1, 0, 1, 1, 32}).ids;
  CHECK(Tokens(longer.begin(), longer.begin() + 8) == shorter);
}

TEST_CASE("a text is read in windows, one behind the other, around its end") {
  const Text text("abcde");
  const auto read = [&](int step) {
    const Batch got = batch(text, {step, 0, 1, 0, 1, 1, 3});
    return std::string(got.ids.begin(), got.ids.end()) + "|" + std::string(got.targets.begin(), got.targets.end());
  };
  CHECK(read(0) == "abc|bcd");
  CHECK(read(1) == "dea|eab");
  CHECK(read(2) == "bcd|cde");
  CHECK(read(5) == "abc|bcd");
}

TEST_CASE("any bytes are a text, from two on") {
  const Batch got = batch(Text(std::string("\xff\0", 2)), {0, 0, 1, 0, 1, 2, 3});
  CHECK(got.ids == Tokens{255, 0, 255, 0, 255, 0});
  CHECK(got.targets == Tokens{0, 255, 0, 255, 0, 255});
  CHECK(Text("ab").vocab() == 256);
  CHECK(refusal([] { Text(""); }) == "a text has at least two bytes, one to read and one to predict, not 0");
  CHECK(refusal([] { Text("a"); }) == "a text has at least two bytes, one to read and one to predict, not 1");
}

TEST_CASE("a language that cannot be is refused") {
  CHECK(refusal([] { Language(0, 1, 1); }) == "a language has from 1 to 2^24 tokens, not 0");
  CHECK(refusal([] { Language(-5, 1, 1); }) == "a language has from 1 to 2^24 tokens, not -5");
  CHECK(refusal([] { Language((1 << 24) + 1, 1, 1); }) == "a language has from 1 to 2^24 tokens, not 16777217");
  CHECK(refusal([] { Language(8, 0, 1); }) == "a token of a language of 8 has from 1 to 8 successors, not 0");
  CHECK(refusal([] { Language(8, 9, 1); }) == "a token of a language of 8 has from 1 to 8 successors, not 9");
  CHECK(refusal([] { Language(500, 65, 1); }) == "a token of a language of 500 has from 1 to 64 successors, not 65");
}

TEST_CASE("a language of one token repeats it") {
  CHECK(batch(Language(1, 1, 1), {0, 0, 1, 0, 1, 1, 3}).ids == Tokens{0, 0, 0});
  CHECK(Language(1, 1, 1).entropy() == 0);
}

TEST_CASE("parameters start with the deviation that is asked for, norms at one and biases at zero") {
  const std::vector<float> theta = seeded_theta({drawn(20'000, 0.02), constant(3, 1), constant(2, 0), drawn(20'000, 0.1)}, 4);
  REQUIRE(theta.size() == 40'005);
  const auto deviation = [&](std::size_t from) {
    double sum = 0, square = 0;
    for (std::size_t i = from; i < from + 20'000; ++i) sum += double(theta[i]), square += double(theta[i]) * double(theta[i]);
    return std::pair(sum / 20'000, std::sqrt(square / 20'000));
  };
  // The standard error of a uniform variable's mean is deviation / sqrt(n) = 0.7 %, of its deviation 0.45 / sqrt(n) = 0.3 %.
  CHECK(std::abs(deviation(0).first) < 4 * 0.02 * 0.0071);
  CHECK(deviation(0).second == doctest::Approx(0.02).epsilon(4 * 0.0032));
  CHECK(deviation(20'005).second == doctest::Approx(0.1).epsilon(4 * 0.0032));
  CHECK(Tokens(theta.begin() + 20'000, theta.begin() + 20'005) == Tokens{1, 1, 1, 0, 0});
  CHECK(theta == seeded_theta({drawn(20'000, 0.02), constant(3, 1), constant(2, 0), drawn(20'000, 0.1)}, 4));
  CHECK(theta != seeded_theta({drawn(20'000, 0.02), constant(3, 1), constant(2, 0), drawn(20'000, 0.1)}, 5));
}

TEST_CASE("a thin model's weights start larger, so that the product of two rows is as large as in GPT-2") {
  CHECK(start_deviation(768) == doctest::Approx(0.02));
  CHECK(start_deviation(8192) == doctest::Approx(0.02));
  CHECK(start_deviation(192) == doctest::Approx(0.04));  // sqrt(768 / 192) = 2
}
