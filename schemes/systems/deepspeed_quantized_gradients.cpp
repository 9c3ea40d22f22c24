// deepspeed_quantized_gradients: what is quantized, and what is sent where.
#include "systems/deepspeed_quantized_gradients.h"

#include <algorithm>
#include <memory>

#include "core/error.h"

namespace shardsim {
namespace {

constexpr int bits = 4;

/// Two numbers lie in a byte.
Dim packed(Dim elements) { return elements - Dim(elements.charged() - elements.charged() / 2, 0); }

/// Every step-th of these, from the first on.
std::vector<Dim> every(int step, const std::vector<Dim>& borders) {
  std::vector<Dim> some;
  for (std::size_t i = 0; i < borders.size(); i += std::size_t(step)) some.push_back(borders[i] - borders.front());
  return some;
}

}  // namespace

/// Elements as bytes and scales.
struct DeepSpeedQuantizedGradients::Quantized {
  Held bytes, scales;
  std::int64_t group;  ///< elements that share a scale

  Dim scales_of(Dim elements) const { return elements - Dim(elements.charged() - elements.charged() / group, 0); }
  Tensor bytes_at(Dim begin, Dim count) const { return bytes->slice(packed(begin), packed(count)); }
  Tensor scales_at(Dim begin, Dim count) const { return scales->slice(scales_of(begin), scales_of(count)); }
};

DeepSpeedQuantizedGradients::Quantized DeepSpeedQuantizedGradients::make(Lane lane, Dim elements, std::int64_t group) const {
  Quantized made{{}, {}, group};
  const auto held = [&](Dim count, Dtype type) {
    return Held(rank_.device, lane, rank_.device.alloc(lane, Band::bucket, one, count, type));
  };
  made.bytes = held(packed(elements), Dtype::int8);
  made.scales = held(made.scales_of(elements), Dtype::fp32);
  return made;
}

bool DeepSpeedQuantizedGradients::takes(Dim rows, Dim cols) const {
  return rows.charged() > 1 && (rows * cols).charged() % (2 * nodes_.world.size) == 0;
}

/// `to` has what this member gets from each: two all-to-alls, one for each of the two kinds of numbers.
void DeepSpeedQuantizedGradients::exchange(Lane lane, const Group& among, const Quantized& from, const Quantized& to,
                                           const std::vector<Dim>& borders) const {
  std::vector<Dim> of_bytes, of_scales;
  for (const Dim border : borders) of_bytes.push_back(packed(border)), of_scales.push_back(from.scales_of(border));
  rank_.fabric.all_to_all(lane, among, *from.bytes, *to.bytes, Payload::data, std::make_shared<const std::vector<Dim>>(of_bytes));
  rank_.fabric.all_to_all(lane, among, *from.scales, *to.scales, Payload::data,
                          std::make_shared<const std::vector<Dim>>(of_scales));
}

Tensor DeepSpeedQuantizedGradients::mean(Lane lane, const std::string& parameter, Tensor gradient,
                                         const std::vector<Dim>& cuts) const {
  const int places = nodes_.shards.size, nodes = nodes_.replicas.size, world = nodes_.world.size;
  const std::int64_t elements = gradient.count().charged();
  const std::int64_t groups = std::max({gradient.rows.charged(), gradient.cols.charged(), std::int64_t(world)});
  const std::int64_t group = elements / groups;
  if (groups % world != 0 || group % 2 != 0)
    throw ScenarioError("scheme '" + rank_.scheme + "': zero_quantized_gradients: " + parameter + ": " + std::to_string(groups) +
                        " groups of " + std::to_string(group) + " elements are no even groups for each of " +
                        std::to_string(world) +
                        " ranks, as PyTorch's all-to-all of their scales needs, which raises no error (DeepSpeed issue 5054); " +
                        "pad the size that does not divide, as in vocab: 50304, or use false");

  // By the receiver's place in its node and then by its node, so that a message has what one GPU passes on.
  Device& device = rank_.device;
  std::vector<Dim> at{none};
  const Quantized sent = make(lane, gradient.count(), group);
  for (int place = 0; place < places; ++place)
    for (int node = 0; node < nodes; ++node) {
      const auto r = std::size_t(node * places + place);
      const Dim count = cuts[r + 1] - cuts[r];
      device.launch(lane, Quantize{gradient.slice(cuts[r], count), sent.bytes_at(at.back(), count),
                                   sent.scales_at(at.back(), count), bits, at.size() > 1});
      at.push_back(at.back() + count);
    }
  const auto mine = at.begin() + nodes_.shards.me * nodes;
  const std::vector<Dim> by_node(mine, mine + nodes + 1);
  const Dim shared = by_node.back() - by_node.front(), piece = mine[nodes_.replicas.me + 1] - mine[nodes_.replicas.me];
  const Quantized received = make(lane, places * shared, group), sum = make(lane, shared, group);
  exchange(lane, nodes_.shards, sent, received, every(nodes, at));
  device.launch(lane, SumQuantized{*received.bytes, *received.scales, *sum.bytes, *sum.scales, places, bits});
  const Quantized arrived = make(lane, nodes * piece, group);
  exchange(lane, nodes_.replicas, sum, arrived, every(1, by_node));

  const Held wide(device, lane, device.alloc(lane, Band::bucket, one, nodes * piece, gradient.dtype()));
  device.launch(lane, Dequantize{*arrived.bytes, *arrived.scales, *wide});
  const Tensor mean = device.alloc(lane, Band::bucket, one, piece, gradient.dtype());
  device.launch(lane, Copy{wide->slice(none, piece), mean});
  for (int node = 1; node < nodes; ++node) device.launch(lane, Add{wide->slice(node * piece, piece), mean});
  device.launch(lane, Scale{mean, mean, 1.0 / world, 0});
  return mean;
}

}  // namespace shardsim
