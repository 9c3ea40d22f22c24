// Where a transformer's training starts: how each weight is drawn, in model order.
#pragma once
#include <vector>

#include "models/language.h"
#include "models/transformer_shape.h"

namespace shardsim {

/// One entry per weight of Transformer's layouts. As in GPT-2: matrices and tables of one deviation, those that write into the
/// residual stream divided by sqrt(2 layers); gains 1, biases 0.
std::vector<Start> starts(const TransformerShape&);

}  // namespace shardsim
