// TrainingSet: a scenario's model sizes, first parameters and data, ready to hand to the ranks.
#pragma once
#include <memory>
#include <vector>

#include "app/scenario.h"
#include "models/data.h"
#include "models/language.h"
#include "models/mlp.h"
#include "models/random.h"
#include "models/transformer.h"

namespace shardsim {

class TrainingSet {
 public:
  /// Reads the files that the scenario names; throws ScenarioError. Nothing but sizes without numerics.
  explicit TrainingSet(const Scenario&);
  const std::vector<float>& theta0() const { return theta0_; }
  /// A rank's model, with the source of its batches. The set has to outlive it.
  std::unique_ptr<Model> model(Device&, int rank) const;

 private:
  void prepare_perceptron(const Scenario&);
  void prepare_transformer(const Scenario&);
  BatchSource rows(int rank) const;
  TokenBatchSource tokens(int rank) const;

  Mlp::Shape perceptron_;
  std::optional<TransformerSizes> transformer_;
  std::vector<float> theta0_;
  std::shared_ptr<const Data> data_;
  std::shared_ptr<const TokenSource> language_;
  std::int64_t sequence_ = 0;  // real
  Random masks_;               // of dropout: a key per rank
  int world_;
  std::int64_t micro_batch_;
  int micro_batches_;
};

}  // namespace shardsim
