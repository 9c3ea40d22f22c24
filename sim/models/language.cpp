// TokenSource: sequences by index, the synthetic language's chances, and where a language model's parameters start.
#include "models/language.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>

#include "models/random.h"

namespace shardsim {

void TokenSource::fill(const Place& at, std::vector<float>& ids, std::vector<float>& targets) const {
  ids.clear(), targets.clear();
  const std::int64_t first = ((at.step * at.micro_batches + at.micro_batch) * at.world + at.rank) * at.sequences;
  std::vector<float> tokens;
  for (std::int64_t i = 0; i < at.sequences; ++i) {
    tokens.clear();
    append(first + i, at.length, tokens);
    ids.insert(ids.end(), tokens.begin(), tokens.end() - 1);
    targets.insert(targets.end(), tokens.begin() + 1, tokens.end());
  }
}

Language::Language(std::int64_t vocab, int successors, std::uint64_t seed) : successors_(successors), seed_(seed) {
  if (vocab < 1 || vocab > 1 << 24)
    throw std::invalid_argument("a language has from 1 to 2^24 tokens, not " + std::to_string(vocab));
  const std::int64_t most = std::min<std::int64_t>(vocab, 64);
  if (successors < 1 || successors > most)
    throw std::invalid_argument("a token of a language of " + std::to_string(vocab) + " has from 1 to " + std::to_string(most) +
                                " successors, not " + std::to_string(successors));
  seats_.resize(std::size_t(vocab));
  std::iota(seats_.begin(), seats_.end(), 0);
  const Random random(seed, Purpose::seats);
  for (std::uint64_t left = seats_.size(); left > 1; --left) std::swap(seats_[left - 1], seats_[random.below(left, left)]);
}

double Language::probability(int k) const { return std::ldexp(1.0, -std::min(k + 1, successors_ - 1)); }

double Language::entropy() const {
  double bits = 0;
  for (int k = 0; k < successors_; ++k) bits -= probability(k) * std::log2(probability(k));
  return bits * std::numbers::ln2;
}

double Language::deviation() const {
  const double mean = entropy() / std::numbers::ln2;
  double variance = 0;
  for (int k = 0; k < successors_; ++k) {
    const double off = -std::log2(probability(k)) - mean;
    variance += probability(k) * off * off;
  }
  return std::sqrt(variance) * std::numbers::ln2;
}

void Language::append(std::int64_t sequence, std::int64_t length, std::vector<float>& tokens) const {
  const Random random(seed_ ^ Random(seed_, Purpose::sentences).bits(std::uint64_t(sequence)), Purpose::sentences);
  std::int64_t token = std::int64_t(random.below(std::uint64_t(vocab()), 0));
  tokens.push_back(float(token));
  for (std::int64_t i = 1; i <= length; ++i) {
    // Of random bits, one more leading zero is half as likely.
    token = successor(token, std::min(std::countl_zero(random.bits(std::uint64_t(i))), successors_ - 1));
    tokens.push_back(float(token));
  }
}

Text::Text(std::string bytes) : bytes_(std::move(bytes)) {
  if (bytes_.size() < 2)
    throw std::invalid_argument("a text has at least two bytes, one to read and one to predict, not " +
                                std::to_string(bytes_.size()));
}

void Text::append(std::int64_t sequence, std::int64_t length, std::vector<float>& tokens) const {
  const std::int64_t size = std::int64_t(bytes_.size());
  for (std::int64_t i = 0; i <= length; ++i)
    tokens.push_back(float(static_cast<unsigned char>(bytes_[std::size_t((sequence * length + i) % size)])));
}

Start drawn(std::int64_t count, double deviation) { return {count, float(std::sqrt(3.0) * deviation), 0}; }

double start_deviation(std::int64_t hidden) { return 0.02 * std::sqrt(768.0 / double(std::min<std::int64_t>(hidden, 768))); }

std::vector<float> seeded_theta(const std::vector<Start>& starts, std::uint64_t seed) {
  const Random random(seed, Purpose::theta_of_transformer);
  std::size_t count = 0;
  for (const Start& start : starts) count += std::size_t(start.count);
  std::vector<float> theta(count);
  // Each number follows from its place, so that threads may share them; a few are not worth any.
  const auto draw = [&](std::size_t begin, std::size_t end) {
    std::size_t first = 0;
    for (const Start& start : starts) {
      const std::size_t last = first + std::size_t(start.count);
      for (std::size_t i = std::max(begin, first); i < std::min(end, last); ++i)
        theta[i] = start.constant + start.bound * random.symmetric(i);
      first = last;
    }
  };
  const std::size_t threads = count < 10'000'000 ? 1 : std::max(1u, std::thread::hardware_concurrency());
  const std::size_t share = count / threads + 1;
  std::vector<std::jthread> others;
  for (std::size_t begin = share; begin < count; begin += share) others.emplace_back(draw, begin, std::min(count, begin + share));
  draw(0, std::min(count, share));
  others.clear();  // all have ended
  return theta;
}

}  // namespace shardsim
