// TrainingSet: real sizes from the scenario's charged ones, and the numbers that go with them.
#include "app/training_set.h"

#include <algorithm>
#include <limits>

#include "formats/npy.h"

namespace shardsim {

TrainingSet::TrainingSet(const Scenario& scenario) : world_(scenario.world), rows_(scenario.micro_batch) {
  const std::int64_t limit = scenario.numerics == Numerics::full   ? std::numeric_limits<std::int64_t>::max()
                             : scenario.numerics == Numerics::twin ? scenario.twin_width
                                                                   : 0;
  std::vector<std::int64_t> widths;
  for (const std::int64_t width : scenario.model.widths) {
    widths.push_back(std::min(width, limit));
    shape_.widths.emplace_back(width, widths.back());
  }
  const bool has_numbers = limit > 0;
  shape_.rows = Dim(rows_, has_numbers ? rows_ : 0);
  shape_.type = scenario.knobs.precision.param;
  shape_.micro_batches = scenario.knobs.accumulation;
  if (!has_numbers) return;
  theta0_ =
      scenario.model.theta0.empty() ? seeded_theta(widths, scenario.seed) : formats::read_npy(scenario.model.theta0, 1).values;
  // Rows that no step gets to are not made: they would change nothing.
  const double all = double(scenario.steps) * scenario.knobs.accumulation * scenario.world * double(rows_);
  const std::int64_t used = all < 1e15 ? std::int64_t(all) : scenario.data.rows;
  if (scenario.data.x.empty())
    data_ = std::make_shared<const Data>(Data::from_teacher(widths, std::min(scenario.data.rows, used), scenario.seed));
  else
    data_ = std::make_shared<const Data>(formats::read_npy(scenario.data.x, 2).values, widths.front(),
                                         formats::read_npy(scenario.data.y, 2).values, widths.back());
}

BatchSource TrainingSet::source(int rank) const {
  if (!data_) return {};
  return [this, rank](int step, int micro_batch, std::vector<float>& x, std::vector<float>& y) {
    data_->fill({step, micro_batch, shape_.micro_batches, rank, world_, rows_}, x, y);
  };
}

}  // namespace shardsim
