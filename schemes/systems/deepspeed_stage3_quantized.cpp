// deepspeed stage 3: gathers in 8 bits (ZeRO++'s qwZ). Two all-gathers, of the numbers and of their groups' scales.
//
// Source: DeepSpeed 0.19.2, CUDAQuantizer in deepspeed/runtime/zero/partition_parameters.py.
#include "systems/deepspeed_stage3.h"

namespace shardsim {
namespace {

/// As few as are at most 8000 numbers each, a multiple of 8; DeepSpeed stops where there are none. 0: none.
std::int64_t groups_of(std::int64_t elements) {
  for (std::int64_t groups = (elements + 7999) / 8000; groups < elements; ++groups)
    if (elements % (8 * groups) == 0) return groups;
  return 0;
}

}  // namespace

/// What a rank has is joined, then quantized.
void DeepSpeedStage3::launch_quantized(Gather& gather, Lane lane) {
  const std::vector<Dim>& borders = *gather.borders;
  const auto me = std::size_t(gather.ranks.me);
  const Dim own = borders[me + 1] - borders[me];
  const std::int64_t groups = groups_of(own.charged());
  if (groups == 0)
    refuse("zero_quantized_weights: " + several(gather.parameters) + ": a shard of " + std::to_string(own.charged()) +
           " elements is no multiple of 8, which DeepSpeed's quantizer needs; use false");
  const auto scales_of = [&](Dim count) { return count + Dim(count.charged() / own.charged() * groups - count.charged(), 0); };

  Held joined;
  if (gather.copies()) {
    joined = Held(device(), lane, alloc(lane, Band::gathered, own, knobs().precision.param));
    lay_out(lane, gather.parameters, *joined);
  }
  gather.bytes = alloc(lane, Band::gathered, borders.back(), Dtype::int8);
  gather.scales = alloc(lane, Band::gathered, scales_of(borders.back()), Dtype::fp32);
  const Held bytes(device(), lane, alloc(lane, Band::gathered, own, Dtype::int8));
  const Held scales(device(), lane, alloc(lane, Band::gathered, scales_of(own), Dtype::fp32));
  device().launch(lane, Quantize{joined ? *joined : own_part(lane, gather.parameters.front()), *bytes, *scales});
  std::vector<Dim> scale_borders;
  for (const Dim border : borders) scale_borders.push_back(scales_of(border));
  fabric().all_gather(lane, gather.ranks, *bytes, gather.bytes, Payload::data, gather.borders);
  fabric().all_gather(lane, gather.ranks, *scales, gather.scales, Payload::data,
                      std::make_shared<const std::vector<Dim>>(std::move(scale_borders)));
}

/// Where the copies are that follow.
void DeepSpeedStage3::dequantize(Gather& gather) {
  const int first = gather.parameters.front();
  gather.buffer = alloc(copy_lane(), Band::gathered, gather.bytes.count(), knobs().precision.param);
  device().launch(copy_lane(), Dequantize{gather.bytes, gather.scales, gather.buffer});
  if (!gather.copies()) states_[first].full = gather.buffer.slice(none, parameters()[first].count());
}

}  // namespace shardsim
