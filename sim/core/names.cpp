// The names of bands, types, lanes, verbs and ops, as they appear in messages, tables and traces.
#include "core/band.h"
#include "core/op.h"
#include "core/stream.h"

namespace shardsim {

const char* name_of(Band band) {
  constexpr const char* names[] = {"param", "grad", "opt", "gathered", "activation", "bucket", "workspace"};
  static_assert(std::size(names) == band_count);
  return names[unsigned(band)];
}

const char* name_of(Dtype type) {
  constexpr const char* names[] = {"fp32", "bf16", "fp16", "int64", "uint8", "int8"};
  static_assert(std::size(names) == dtype_count);
  return names[unsigned(type)];
}

const char* name_of(Lane lane) {
  constexpr const char* names[] = {"compute", "gather", "reduce", "copy"};
  static_assert(std::size(names) == lane_count);
  return names[unsigned(lane)];
}

const char* name_of(Verb verb) {
  constexpr const char* names[] = {"bind",   "load",      "forward",    "backward", "all_reduce", "reduce_scatter", "all_gather",
                                   "reduce", "broadcast", "all_to_all", "release",  "clip",       "adam",           "fetch"};
  static_assert(std::size(names) == verb_count);
  return names[unsigned(verb)];
}

const char* op_name(std::size_t index) {
  constexpr const char* names[] = {"matmul",
                                   "batched_matmul",
                                   "add_bias",
                                   "sum_rows",
                                   "embed",
                                   "embed_backward",
                                   "norm",
                                   "norm_backward",
                                   "rotate",
                                   "attention",
                                   "attention_backward",
                                   "split_heads",
                                   "split_heads_backward",
                                   "merge_heads",
                                   "causal_mask",
                                   "masked_softmax",
                                   "softmax_backward",
                                   "tanh",
                                   "tanh_backward",
                                   "gelu",
                                   "gelu_backward",
                                   "silu",
                                   "silu_backward",
                                   "swiglu",
                                   "swiglu_backward",
                                   "scale",
                                   "cube",
                                   "cube_backward",
                                   "multiply",
                                   "dropout",
                                   "dropout_backward",
                                   "mse_loss",
                                   "cross_entropy",
                                   "log_softmax",
                                   "nll_loss",
                                   "log_softmax_backward",
                                   "copy",
                                   "chunk_copy",
                                   "quantize",
                                   "dequantize",
                                   "sum_quantized",
                                   "add",
                                   "fill",
                                   "sum_squares",
                                   "clip_factor",
                                   "adam"};
  static_assert(std::size(names) == std::variant_size_v<Op>);
  return names[index];
}

const char* name_of(const Op& op) { return op_name(op.index()); }

}  // namespace shardsim
