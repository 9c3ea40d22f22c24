// Stack: how many bytes the elementwise kernels of a software stack move, from hand-fused C++ to eager Python.
#pragma once
#include <span>
#include <string_view>

#include "cost/gpu.h"

namespace shardsim::cost {

/// Bytes per element in a forward pass. Of a block of width d and feed-forward width f, all kernels together move A bytes per token
/// and element of d, and B per element of f: A = 2 norm + 2 residual + rotate, B = activation.
struct Stack {
  const char* name;
  double norm, residual;  ///< per element of the hidden state
  double rotate;          ///< per element of the queries; moves the keys as well
  double activation;      ///< per element of the feed-forward width
  const char* what;
};

/// `natural` first: what the ops' tensors say.
std::span<const Stack> stacks();
const Stack* find_stack(std::string_view name);  ///< null if there is none
void use(const Stack&, Gpu&);

}  // namespace shardsim::cost
