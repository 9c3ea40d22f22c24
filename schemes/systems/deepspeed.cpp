// deepspeed: the options that all stages share, what is refused, and which class a stage is.
#include "systems/deepspeed.h"

#include <stdexcept>
#include <string>

#include "systems/deepspeed_bf16_optimizer.h"
#include "systems/deepspeed_stage0.h"
#include "systems/deepspeed_stage12_offload.h"
#include "systems/deepspeed_stage3_offload.h"

namespace shardsim {
namespace {

using Kind = Option::Kind;

Option toggle(const char* name, const char* standard, const char* about) { return {name, Kind::boolean, standard, about}; }
Option elements(const char* name, const char* standard, const char* about) {
  return {.name = name, .kind = Kind::integer, .standard = standard, .about = about, .low = 0};
}
Option one_of(const char* name, std::vector<std::string> words, const char* about) {
  return {name, Kind::text, words.front(), about, words};
}

[[noreturn]] void refuse(const std::string& what) { throw std::invalid_argument(what); }

void refuse_what_is_not_modelled(const Options& options) {
  for (const char* name : {"offload_optimizer", "offload_param"})
    if (options.text(name) == "nvme") refuse(std::string(name) + ": offloading to NVMe is not modelled; use cpu or none");
  for (const char* name : {"offload_optimizer_pin_memory", "offload_param_pin_memory"})
    if (!options.boolean(name)) refuse(std::string(name) + ": copies of pageable memory are not modelled; use true");
  if (options.number("offload_optimizer_ratio") != 1)
    refuse("offload_optimizer_ratio: a part of the optimizer (ZeRO-Offload++) is not modelled; use 1.0");
  if (options.boolean("offload_optimizer_super_offload"))
    refuse("offload_optimizer_super_offload: SuperOffload is not modelled; use false");
}

void refuse_what_deepspeed_refuses(const Options& options) {
  const bool offloads = options.text("offload_optimizer") == "cpu";
  if (offloads && options.integer("stage") == 0) refuse("offload_optimizer: needs stage 1, 2 or 3");
  if (options.text("offload_param") == "none") return;
  if (options.integer("stage") != 3) refuse("offload_param: needs stage 3");
  if (!offloads) refuse("offload_param: parameters are offloaded beside the optimizer only; use offload_optimizer: cpu");
}

std::unique_ptr<Scheme> made(const Options& options) {
  refuse_what_is_not_modelled(options);
  refuse_what_deepspeed_refuses(options);
  const bool offloads = options.text("offload_optimizer") == "cpu";
  switch (options.integer("stage")) {
    case 0:
      return std::make_unique<DeepSpeedStage0>(options);
    case 1:
      if (offloads) return std::make_unique<DeepSpeedStage12Offload>(options);
      if (options.text("grad_accum_dtype") == "fp32") return std::make_unique<DeepSpeedBf16Optimizer>(options);
      return std::make_unique<DeepSpeedStage12>(options);
    case 2:
      if (offloads) return std::make_unique<DeepSpeedStage12Offload>(options);
      return std::make_unique<DeepSpeedStage12>(options);
    default:
      if (offloads) return std::make_unique<DeepSpeedStage3Offload>(options);
      return std::make_unique<DeepSpeedStage3>(options);
  }
}

}  // namespace

std::vector<Option> DeepSpeed::options() {
  return {
      {.name = "stage", .kind = Kind::integer, .standard = "0", .about = "what is partitioned", .low = 0, .high = 3},
      toggle("contiguous_gradients", "true", "stages 1, 2: gradients are copied into the bucket"),
      toggle("reduce_scatter", "true", "stages 1, 2: slices are routed to their owners; stage 3: reduce-scatter, not all-reduce"),
      elements("reduce_bucket_size", "5e8", "elements of a bucket"),
      toggle("use_multi_rank_bucket_allreduce", "true", "stages 1, 2: one all-reduce per bucket, not a reduce per owner"),
      toggle("allgather_partitions", "true", "ignored: PyTorch gathers in place"),
      elements("allgather_bucket_size", "5e8", "ignored: PyTorch gathers in place"),
      {.name = "overlap_comm",
       .kind = Kind::boolean,
       .standard = "None",
       .about = "a stream for reductions and, at stages 1 and 2, a second bucket; None: at stage 3 only",
       .words = {"None"}},
      toggle("round_robin_gradients", "false", "stages 1, 2: neighbours in the model belong to different ranks"),
      elements("sub_group_size", "1e9", "stage 3: elements that the optimizer updates at a time"),
      elements("stage3_prefetch_bucket_size", "5e7", "elements gathered ahead per module"),
      elements("stage3_max_live_parameters", "1e9", "gathered elements beyond which nothing is gathered ahead"),
      elements("stage3_max_reuse_distance", "1e9", "what is used again within so many elements is kept"),
      elements("stage3_param_persistence_threshold", "1e5", "parameters of at most so many elements stay gathered"),
      elements("stage3_model_persistence_threshold", "9007199254740991",
               "elements that may stay gathered; the default is no limit"),
      elements("stage3_module_granularity_threshold", "0", "modules of fewer elements per layer are fetched as one; 0: none"),
      toggle("stage3_allgather_sequential", "false", "one gather per parameter"),
      toggle("stage3_use_all_reduce_for_fetch_params", "false", "gathers are all-reduces of zeros and the own slice"),
      toggle("stage3_gather_16bit_weights_on_model_save", "false", "of checkpoints: nothing happens in a step"),
      {.name = "zero_hpz_partition_size",
       .kind = Kind::integer,
       .standard = "1",
       .about = "stage 3: ranks that keep a second copy for the rest of the step, and gather from it (ZeRO++'s hpZ)",
       .low = 1},
      toggle("zero_quantized_weights", "false", "stage 3: gathers of 8-bit numbers and their scales (ZeRO++'s qwZ)"),
      toggle("zero_quantized_nontrainable_weights", "false", "ignored: every parameter is trained"),
      toggle("zero_quantized_gradients", "false",
             "stage 3: means of 4-bit gradients by all-to-alls in a node and across nodes (ZeRO++'s qgZ); needs mesh"),
      {.name = "mics_shard_size",
       .kind = Kind::integer,
       .standard = "-1",
       .about = "stage 3: ranks that share one copy of everything (MiCS); -1 or 0: all",
       .low = -1},
      toggle("mics_hierarchical_params_gather", "false", "MiCS: gathers across nodes, then within; not modelled"),
      toggle("memory_efficient_linear", "true", "ignored: a linear keeps no gathered weight here"),
      toggle("ignore_unused_parameters", "true", "ignored: every parameter is used"),
      toggle("load_from_fp32_weights", "true", "of checkpoints: nothing happens in a step"),
      one_of("offload_optimizer", {"none", "cpu", "nvme"}, "offload_optimizer.device: who keeps and updates the fp32 partition"),
      toggle("offload_optimizer_pin_memory", "true", "offload_optimizer.pin_memory; only true is modelled"),
      {.name = "offload_optimizer_ratio",
       .kind = Kind::number,
       .standard = "1.0",
       .about = "offload_optimizer.ratio; only 1.0 is modelled",
       .low = 0,
       .high = 1},
      toggle("offload_optimizer_super_offload", "false", "offload_optimizer.super_offload; not modelled"),
      one_of("offload_param", {"none", "cpu", "nvme"}, "offload_param.device: who keeps the shards, stage 3 only"),
      toggle("offload_param_pin_memory", "true", "offload_param.pin_memory; only true is modelled"),
      toggle("prescale_gradients", "false", "gradients are divided before the reduction where they would be after"),
      {.name = "gradient_predivide_factor",
       .kind = Kind::number,
       .standard = "1.0",
       .about = "the part of the division that comes before the reduction",
       .low = 1e-9},
      one_of("grad_accum_dtype", {"None", "fp32", "bf16", "fp16"},
             "data_types.grad_accum_dtype; None: the model's. At stage 1, fp32 beside bf16 is BF16_Optimizer"),
      toggle("check_grad_overflow", "false", "bf16.check_grad_overflow: a scan and a one-byte all-reduce per step"),
  };
}

DeepSpeed::DeepSpeed(const Options& options) : stage_(made(options)) {}

}  // namespace shardsim
