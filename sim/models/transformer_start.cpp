// Where a transformer's training starts.
#include "models/transformer_start.h"

#include <cmath>

namespace shardsim {

std::vector<Start> starts(const TransformerShape& s) {
  const bool is_llama = s.family == Family::llama;
  const double deviation = start_deviation(s.hidden), residual = deviation / std::sqrt(2.0 * s.layers);
  const std::int64_t heads_width = s.heads * s.head_dim, qkv = heads_width + 2 * s.kv_heads * s.head_dim;
  std::vector<Start> all;
  const auto norm = [&] {
    all.push_back(constant(s.hidden, 1));
    if (!is_llama) all.push_back(constant(s.hidden, 0));
  };
  const auto linear = [&](std::int64_t in, std::int64_t out, double how) {
    all.push_back(drawn(in * out, how));
    if (s.biases) all.push_back(constant(out, 0));
  };
  all.push_back(drawn(s.vocab * s.hidden, deviation));
  if (!is_llama) all.push_back(drawn(s.positions * s.hidden, deviation));
  if (s.tied) norm();
  for (int block = 0; block < s.layers; ++block) {
    norm();
    linear(s.hidden, qkv, deviation);
    linear(heads_width, s.hidden, residual);
    norm();
    if (is_llama) linear(s.hidden, s.ffn, deviation);
    linear(s.hidden, s.ffn, deviation);
    linear(s.ffn, s.hidden, residual);
  }
  if (!s.tied) {
    norm();
    all.push_back(drawn(s.vocab * s.hidden, deviation));
  }
  return all;
}

}  // namespace shardsim
