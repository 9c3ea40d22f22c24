// TokenSource: the tokens that a language model is trained on: a synthetic language whose entropy is known, or a text's bytes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace shardsim {

class TokenSource {
 public:
  virtual ~TokenSource() = default;

  /// Who asks for tokens: rank r of N, in micro-batch a of A of step t (from 0), for B sequences of `length` tokens.
  struct Place {
    std::int64_t step, micro_batch, micro_batches, rank, world, sequences, length;
  };
  /// ids and targets (B x length each) of the sequences ((t A + a) N + r) B ... + B; a target is the token after its id.
  void fill(const Place&, std::vector<float>& ids, std::vector<float>& targets) const;

  /// All tokens are below it.
  virtual std::int64_t vocab() const = 0;

 private:
  /// Appends `length` + 1 tokens of a sequence, which is known by its index alone.
  virtual void append(std::int64_t sequence, std::int64_t length, std::vector<float>& tokens) const = 0;
};

/// A seeded language without end: each token has K successors with the probabilities 1/2, 1/4, ..., the last as likely as the one
/// before it. The same distribution follows on every token, so that the entropy is exact: for K = 4, 1.75 bits per token. The first
/// token of a sequence is uniform, and so is every other; no sequence comes twice.
class Language : public TokenSource {
 public:
  /// vocab from 1 to 2^24; successors (K) from 1 to the smaller of vocab and 64. Else std::invalid_argument that says so.
  Language(std::int64_t vocab, int successors, std::uint64_t seed);

  std::int64_t vocab() const override { return std::int64_t(seats_.size()); }
  int successors() const { return successors_; }
  /// The k-th likeliest successor of a token, and how likely it is.
  std::int64_t successor(std::int64_t token, int k) const { return seats_[std::size_t((token + k) % vocab())]; }
  double probability(int k) const;
  /// Nats per token: no model's mean loss is below it.
  double entropy() const;
  /// Standard deviation of -log p of a token, in nats. Tokens are independent in it: the mean over n of them has deviation /
  /// sqrt(n).
  double deviation() const;

 private:
  void append(std::int64_t sequence, std::int64_t length, std::vector<float>& tokens) const override;

  int successors_;
  std::uint64_t seed_;
  std::vector<std::int32_t> seats_;  // a permutation: the successors of token v are seats_[v], seats_[v + 1], ...
};

/// A text's bytes as tokens. Sequence i is the bytes i length ... + length and, as the last target, the one behind, wrapping
/// around.
class Text : public TokenSource {
 public:
  /// Any bytes, at least two of them; else std::invalid_argument.
  explicit Text(std::string bytes);
  std::int64_t vocab() const override { return 256; }

 private:
  void append(std::int64_t sequence, std::int64_t length, std::vector<float>& tokens) const override;

  std::string bytes_;
};

/// Where a weight starts: `count` numbers, uniform in constant +- bound.
struct Start {
  std::int64_t count;
  float bound, constant;
};
/// Numbers of mean 0 and this standard deviation.
Start drawn(std::int64_t count, double deviation);
inline Start constant(std::int64_t count, float value) { return {count, 0, value}; }

/// GPT-2's 0.02 from hidden size 768 on; 0.02 sqrt(768 / hidden) below, so that a thin model's signals are as large and it learns
/// as fast. Divide by sqrt(2 layers) for the matrices that write into the residual stream (Radford et al. 2019, section 2.3).
double start_deviation(std::int64_t hidden);

/// The initial parameters of weights in model order.
std::vector<float> seeded_theta(const std::vector<Start>&, std::uint64_t seed);

}  // namespace shardsim
