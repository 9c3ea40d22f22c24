// TrainingSet: real sizes from the scenario's charged ones, and the numbers that go with them.
#include "app/training_set.h"

#include <algorithm>
#include <limits>

#include "app/scenario_model.h"
#include "formats/bytes.h"
#include "formats/npy.h"
#include "models/transformer_start.h"

namespace shardsim {

TrainingSet::TrainingSet(const Scenario& scenario)
    : masks_(scenario.seed, Purpose::masks),
      world_(scenario.world),
      micro_batch_(scenario.micro_batch),
      micro_batches_(scenario.knobs.accumulation) {
  if (scenario.transformer) prepare_transformer(scenario);
  else prepare_perceptron(scenario);
}

void TrainingSet::prepare_perceptron(const Scenario& scenario) {
  const std::int64_t limit = scenario.numerics == Numerics::full   ? std::numeric_limits<std::int64_t>::max()
                             : scenario.numerics == Numerics::twin ? scenario.twin_width
                                                                   : 0;
  std::vector<std::int64_t> widths;
  for (const std::int64_t width : scenario.model.widths) {
    widths.push_back(std::min(width, limit));
    perceptron_.widths.emplace_back(width, widths.back());
  }
  const bool has_numbers = limit > 0;
  perceptron_.rows = Dim(micro_batch_, has_numbers ? micro_batch_ : 0);
  perceptron_.type = scenario.knobs.precision.param;
  perceptron_.micro_batches = micro_batches_;
  if (!has_numbers) return;
  theta0_ =
      scenario.model.theta0.empty() ? seeded_theta(widths, scenario.seed) : formats::read_npy(scenario.model.theta0, 1).values;
  // Rows that no step gets to are not made: they would change nothing.
  const double all = double(scenario.steps) * micro_batches_ * world_ * double(micro_batch_);
  const std::int64_t used = all < 1e15 ? std::int64_t(all) : scenario.data.rows;
  if (scenario.data.x.empty())
    data_ = std::make_shared<const Data>(Data::from_teacher(widths, std::min(scenario.data.rows, used), scenario.seed));
  else
    data_ = std::make_shared<const Data>(formats::read_npy(scenario.data.x, 2).values, widths.front(),
                                         formats::read_npy(scenario.data.y, 2).values, widths.back());
}

void TrainingSet::prepare_transformer(const Scenario& scenario) {
  const bool has_numbers = scenario.numerics != Numerics::off;
  const TransformerChoice& choice = *scenario.transformer;
  const TransformerShape &charged = choice.shape, real = real_shape(scenario);
  sequence_ = real_sequence(scenario);
  const auto dim = [has_numbers](std::int64_t of_charged, std::int64_t of_real) {
    return Dim(of_charged, has_numbers ? of_real : 0);
  };
  transformer_ = TransformerSizes{
      .family = charged.family,
      .layers = charged.layers,
      .hidden = dim(charged.hidden, real.hidden),
      .head_dim = dim(charged.head_dim, real.head_dim),
      .ffn = dim(charged.ffn, real.ffn),
      .vocab = dim(charged.vocab, real.vocab),
      .positions = dim(charged.positions, real.positions),
      .heads = {dim(charged.heads, real.heads), dim(charged.kv_heads, real.kv_heads), dim(choice.sequence, sequence_)},
      .sequences = dim(micro_batch_, micro_batch_),
      .tied = charged.tied,
      .biases = charged.biases,
      .norm_eps = charged.norm_eps,
      .rope_base = charged.rope_base,
      .type = scenario.knobs.precision.param,
      .micro_batches = micro_batches_,
      .plan = choice.plan};
  if (!has_numbers) return;
  theta0_ = scenario.model.theta0.empty() ? seeded_theta(starts(real), scenario.seed)
                                          : formats::read_npy(scenario.model.theta0, 1).values;
  if (scenario.data.text.empty()) language_ = std::make_shared<const Language>(real.vocab, scenario.data.successors, scenario.seed);
  else language_ = std::make_shared<const Text>(formats::read_bytes(scenario.data.text));
}

std::unique_ptr<Model> TrainingSet::model(Device& device, int rank) const {
  if (transformer_) return std::make_unique<Transformer>(device, *transformer_, tokens(rank), masks_.bits(std::uint64_t(rank)));
  return std::make_unique<Mlp>(device, perceptron_, rows(rank));
}

BatchSource TrainingSet::rows(int rank) const {
  if (!data_) return {};
  return [this, rank](int step, int micro_batch, std::vector<float>& x, std::vector<float>& y) {
    data_->fill({step, micro_batch, micro_batches_, rank, world_, micro_batch_}, x, y);
  };
}

TokenBatchSource TrainingSet::tokens(int rank) const {
  if (!language_) return {};
  return [this, rank](int step, int micro_batch, std::vector<float>& ids, std::vector<float>& targets) {
    language_->fill({step, micro_batch, micro_batches_, rank, world_, micro_batch_, sequence_}, ids, targets);
  };
}

}  // namespace shardsim
