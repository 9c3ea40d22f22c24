// Reading how a scenario trains.
#include "app/scenario_training.h"

#include <limits>

namespace shardsim {
namespace {

constexpr std::int64_t most = 1'000'000'000;

YamlNode empty_map(const char* key) {
  YamlNode node;
  node.kind = YamlNode::Kind::map, node.key = key;
  return node;
}

float not_negative(const YamlNode& value) {
  return float_of(
      value, [](float x) { return x >= 0; }, "has to be 0 or more");
}

float positive(const YamlNode& value) {
  return float_of(
      value, [](float x) { return x > 0; }, "has to be greater than 0");
}

LossScale loss_scale_of(const YamlNode& node, std::vector<std::string>& defaults) {
  LossScale scale;
  scale.on = true;
  if (node.kind == YamlNode::Kind::scalar && node.text == "off") return {};
  if (node.kind == YamlNode::Kind::scalar && node.text == "dynamic") {
    scale.dynamic = true;
    return scale;
  }
  if (node.kind == YamlNode::Kind::scalar) {
    if (!node.quoted && !number_in(node.text))
      refuse(node, "unknown value " + quoted(node.text) +
                       "; write off, dynamic, a number, or {init_scale: 65536, growth_interval: 2000}");
    scale.initial = positive(node);
    return scale;
  }
  const Fields fields(node, {"init_scale", "growth_factor", "backoff_factor", "growth_interval"}, defaults);
  scale.dynamic = true;
  scale.initial = fields.value_or("init_scale", scale.initial, "65536", positive);
  scale.growth = fields.value_or("growth_factor", scale.growth, "2", [](const YamlNode& value) {
    return float_of(
        value, [](float x) { return x > 1; }, "has to be greater than 1");
  });
  scale.backoff = fields.value_or("backoff_factor", scale.backoff, "0.5", [](const YamlNode& value) {
    return float_of(
        value, [](float x) { return x > 0 && x < 1; }, "has to be greater than 0 and less than 1");
  });
  scale.growth_interval = int(fields.integer_or("growth_interval", scale.growth_interval, 1, most));
  return scale;
}

LrSchedule schedule_of(const YamlNode& node, std::vector<std::string>& defaults) {
  if (node.kind == YamlNode::Kind::scalar) {
    choice_of(node, {"constant"});
    return {};
  }
  const Fields fields(node, {"warmup_steps", "cosine_steps", "min_lr_ratio"}, defaults);
  LrSchedule schedule;
  schedule.warmup = int(fields.integer_or("warmup_steps", 0, 0, most));
  schedule.decay_steps = int(fields.integer_or("cosine_steps", 0, 0, most));
  schedule.floor = double(float(fields.value_or("min_lr_ratio", 0.0, "0", share_of)));
  if (schedule.decay_steps > 0 && schedule.decay_steps <= schedule.warmup)
    refuse(*fields.find("cosine_steps"), "ends before the warm-up does; it counts from the first step, so choose a larger number");
  return schedule;
}

}  // namespace

void read_precision(const Fields& root, Knobs& knobs, std::vector<std::string>& defaults) {
  const YamlNode* node = root.find("precision");
  if (!node) {
    defaults.push_back("precision: {param: fp32, grad: fp32, reduce: fp32}");
    return;
  }
  const Fields fields(*node, {"param", "grad", "reduce", "master", "loss_scale"}, defaults);
  const auto read = [](const YamlNode& value) { return Dtype(choice_of(value, {"fp32", "bf16", "fp16"})); };
  Precision& precision = knobs.precision;
  precision.param = fields.value_or("param", Dtype::fp32, "fp32", read);
  precision.grad = fields.value_or("grad", precision.param, name_of(precision.param), read);
  precision.reduce = fields.value_or("reduce", precision.grad, name_of(precision.grad), read);
  if (const YamlNode* master = fields.find("master")) {
    precision.master = choice_of(*master, {"none", "fp32"}) == 1;
    if (!precision.master && precision.param == Dtype::fp32)
      refuse(*master, "fp32 parameters are their own master; remove the key or choose a 16-bit param");
  }
  if (const YamlNode* scale = fields.find("loss_scale")) {
    knobs.loss_scale = loss_scale_of(*scale, defaults);
  } else if (precision.grad == Dtype::fp16) {
    knobs.loss_scale.on = knobs.loss_scale.dynamic = true;
    defaults.push_back("precision.loss_scale: dynamic");
  }
}

void read_optimizer(const Fields& root, Knobs& knobs, std::vector<std::string>& defaults) {
  const YamlNode* node = root.find("optimizer");
  const YamlNode empty = empty_map("optimizer");
  const Fields fields(node ? *node : empty,
                      {"name", "lr", "betas", "eps", "weight_decay", "weight_decay_on", "clip", "lr_schedule", "implementation"},
                      defaults);
  AdamRule& adam = knobs.adam;
  adam.decoupled = fields.value_or("name", std::size_t{0}, "adam", [](const YamlNode& value) {
    return choice_of(value, {"adam", "adamw"});
  }) == 1;
  adam.lr = fields.value_or("lr", adam.lr, "1e-3", positive);
  fields.value_or("betas", 0, "[0.9, 0.999]", [&adam](const YamlNode& value) {
    const std::vector<YamlNode>& betas = list_of(value, "[0.9, 0.999]");
    if (betas.size() != 2)
      refuse(value, "holds " + std::to_string(betas.size()) + " numbers, but 2 are expected; write it as [0.9, 0.999]");
    const auto read = [](const YamlNode& beta) {
      return float_of(
          beta, [](float x) { return x >= 0 && x < 1; }, "has to be at least 0 and less than 1");
    };
    adam.beta1 = read(betas[0]), adam.beta2 = read(betas[1]);
    return 0;
  });
  adam.eps = fields.value_or("eps", adam.eps, "1e-8", positive);
  adam.weight_decay = fields.value_or("weight_decay", 0.f, "0", not_negative);
  if (const YamlNode* on = fields.find("weight_decay_on")) knobs.decays_matrices_only = choice_of(*on, {"all", "matrices"}) == 1;
  if (const YamlNode* node = fields.find("implementation"))
    adam.passes = AdamPasses(choice_of(*node, {"fused", "foreach", "for_loop"}));
  if (const YamlNode* schedule = fields.find("lr_schedule")) knobs.schedule = schedule_of(*schedule, defaults);
  knobs.clip = fields.value_or("clip", 0.f, "off", [&](const YamlNode& value) {
    return value.kind == YamlNode::Kind::scalar && value.text == "off" ? 0.f : positive(value);
  });
}

void read_mesh(const Fields& root, Scenario& scenario) {
  const YamlNode* node = root.find("mesh");
  if (!node) return;
  std::vector<std::string> none_used;
  const Fields fields(*node, {"replicas", "shards"}, none_used);
  const std::int64_t replicas = integer_of(fields.need("replicas", "mesh: {replicas: 2, shards: 4}"), 1, 1 << 20);
  const std::int64_t shards = integer_of(fields.need("shards", "mesh: {replicas: 2, shards: 4}"), 1, 1 << 20);
  if (replicas * shards != scenario.world)
    refuse(*node, "makes " + std::to_string(replicas) + " x " + std::to_string(shards) + " = " + std::to_string(replicas * shards) +
                      " ranks, but the world has " + std::to_string(scenario.world) + "; their product has to be the world");
  scenario.knobs.shards = int(shards);
}

}  // namespace shardsim
