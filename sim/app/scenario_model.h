// The parts of a scenario that say what is trained: model, numerics and data.
#pragma once
#include <string>
#include <vector>

#include "app/fields.h"
#include "app/scenario.h"

namespace shardsim {

/// Fills the model, numerics and data, and checks files against the sizes. Paths are relative to the scenario file.
void read_model_and_data(const Fields& root, Scenario&, std::vector<std::string>& defaults);

/// Fills the transformer of `model`, which is a preset's name or a map that is no perceptron's, and the sequence of `batch`.
void read_transformer(const Fields& root, const YamlNode& model, Scenario&, std::vector<std::string>& defaults);

/// The sizes that the arithmetic of a transformer has: those of the twin, or the charged ones. The sequence is `sequence`.
TransformerShape real_shape(const Scenario&);
std::int64_t real_sequence(const Scenario&);

}  // namespace shardsim
