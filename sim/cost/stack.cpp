// Stack: the table.
#include "cost/stack.h"

namespace shardsim::cost {
namespace {

// Only the sums A and B are known: they were fitted to public tables of training steps on A100 and H100 (llm.c's scripts, LLMQ's
// benchmarks, IBM's fms-fsdp README in its eager and its compiled revisions, torchtitan's and MosaicML llm-foundry's tables). How A
// splits over norm, residual and rotation is ours, by counting the passes of each kernel in 16 bits: a residual addition reads two
// tensors and writes one (6); fused with the norm behind it, both together move 8; an fp32 RMSNorm chain of six kernels moves 36.
constexpr Stack table[] = {
    {"natural", 0, 0, 0, 0, "what the ops' tensors say, each kernel alone"},
    {"fused", 4, 4, 0, 4, "hand-fused C++ (llm.c, LLMQ)"},                                         // A 16, B 4
    {"compiled", 4, 4, 8, 6, "torch.compile or Triton: norm and residual, RoPE, SwiGLU fused"},    // A 24, B 6
    {"eager_layernorm", 7, 6, 0, 5, "eager PyTorch, 16-bit LayerNorm and GELU (GPT-2, MPT)"},      // A 26, B 5
    {"eager_rmsnorm_fused", 4, 6, 30, 10, "eager Llama with a fused RMSNorm"},                     // A 50, B 10
    {"eager_rmsnorm", 36.5, 6, 30, 10, "eager Llama: fp32 RMSNorm in six kernels, complex RoPE"},  // A 115, B 10
    {"eager_python_rope", 36.5, 6, 95, 10, "the same with RoPE as 2 x 2 products in Python"},      // A 180, B 10
};

}  // namespace

std::span<const Stack> stacks() { return table; }

const Stack* find_stack(std::string_view name) {
  for (const Stack& stack : table)
    if (name == stack.name) return &stack;
  return nullptr;
}

void use(const Stack& stack, Gpu& gpu) {
  gpu.stack = stack.name;
  gpu.norm_bytes = stack.norm, gpu.residual_bytes = stack.residual;
  gpu.rotate_bytes = stack.rotate, gpu.activation_bytes = stack.activation;
}

}  // namespace shardsim::cost
