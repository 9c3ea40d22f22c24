// TrainingSet: a scenario's model sizes, first parameters and data, ready to hand to the ranks.
#pragma once
#include <memory>
#include <vector>

#include "app/scenario.h"
#include "models/data.h"
#include "models/mlp.h"

namespace shardsim {

class TrainingSet {
 public:
  /// Reads the .npy files that the scenario names; throws ScenarioError. Nothing but sizes without numerics.
  explicit TrainingSet(const Scenario&);
  const Mlp::Shape& shape() const { return shape_; }
  const std::vector<float>& theta0() const { return theta0_; }
  /// What a rank's model asks for its batches.
  BatchSource source(int rank) const;

 private:
  Mlp::Shape shape_;
  std::vector<float> theta0_;
  std::shared_ptr<const Data> data_;
  int world_;
  std::int64_t rows_;
};

}  // namespace shardsim
