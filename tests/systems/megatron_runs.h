// The GPT of Megatron-LM's own functional tests, shared by the tests of its distributed optimizer and of what it holds.
#pragma once
#include "systems/systems.h"

namespace shardsim::test {

/// The model of Megatron-LM's own functional tests: 50257 tokens of GPT-2's, padded to a multiple of 128.
inline Scenario megatron_test_gpt(int gpus) {
  Scenario s = gpt2_large();
  TransformerShape& shape = s.transformer->shape;
  shape.layers = 12, shape.hidden = 512, shape.heads = shape.kv_heads = 8, shape.head_dim = 64, shape.ffn = 2048;
  s.transformer->plan.loss = TransformerPlan::Loss::fp32_fused;
  s.world = gpus, s.steps = 3, s.knobs.accumulation = 32 / (4 * gpus), s.knobs.clip = 1;
  s.memory.torch = true;
  return s;
}

constexpr std::int64_t parameters_of_test_gpt = 64'109'568;

}  // namespace shardsim::test
