// The benchmark of a thin GPT-2 block's host arithmetic.
#pragma once
#include <functional>

#include "core/op.h"

namespace shardsim {

/// The same product as the op's, made of matrices of its own and of nothing but the library that the ops use; called to run it.
using BareProduct = std::function<std::function<void()>(const Matmul&)>;

/// Prints, for several widths and types, how long a block's ops take on the host: its matrix products against bare ones, attention,
/// everything else.
void block_arithmetic(const BareProduct&);

}  // namespace shardsim
