// llmc_zero1: the blocks, the static activations, and the step.
#include "systems/llmc_zero1.h"

#include <algorithm>
#include <map>

namespace shardsim {

std::vector<Option> LlmcZero1::options() {
  using Kind = Option::Kind;
  return {{.name = "zero_stage",
           .kind = Kind::integer,
           .standard = "1",
           .about = "-z: 0 or 1; llm.c's own default is 0",
           .low = 0,
           .high = 1},
          {.name = "recompute",
           .kind = Kind::integer,
           .standard = "1",
           .about = "-r: what backward computes again: 0 nothing, 1 the GELUs, 2 the norms of the layers, too",
           .low = 0,
           .high = 2},
          {"use_cudnn", Kind::boolean, "true", "USE_CUDNN: attention keeps statistics; false: it keeps all probabilities"},
          {.name = "version",
           .standard = "2025-05",
           .about = "whose list of activations; in 2024-05 it has two arrays more per layer, and the gradients' scratch apart",
           .words = {"2024-05", "2025-05"}}};
}

LlmcZero1::LlmcZero1(const Options& options)
    : is_sharded_(options.integer("zero_stage") == 1),
      uses_cudnn_(options.boolean("use_cudnn")),
      is_of_2024_(options.text("version") == "2024-05"),
      recompute_(int(options.integer("recompute"))) {}

void LlmcZero1::check_options() const {
  if (!rank().model.gpt2()) refuse("llm.c trains GPT-2 with a tied head and no dropout, and no other model; use model: gpt2");
  if (knobs().precision.grad != knobs().precision.param)
    refuse("precision.grad: llm.c's gradients have the parameters' type; leave it out");
  if (knobs().precision.param == Dtype::fp16) refuse("llm.c scales no loss, which fp16 needs; use bf16");
  if (is_of_2024_ && recompute_ == 2) refuse("recompute: 2 came after version 2024-05; use 0 or 1");
  if (!is_sharded_) return;
  const std::int64_t n = rank().world;
  std::int64_t all = 0;
  for (const Parameter& parameter : parameters()) all += parameter.count().charged();
  if (all % n != 0)
    refuse("llm.c turns ZeRO-1 off where the ranks do not divide the parameters, here " + std::to_string(all) + " by " +
           std::to_string(n) + "; say so with zero_stage: 0, or choose another world");
  for (const Parameter& parameter : parameters())
    if (parameter.count().charged() % n != 0)
      refuse("llm.c's ZeRO-1 asserts that the ranks divide every tensor, and " + std::to_string(n) + " do not divide " +
             parameter.name + "; use zero_stage: 0, or choose another world");
}

/// train_gpt2.cu: fill_in_activation_sizes.
std::vector<LlmcZero1::Array> LlmcZero1::activations() const {
  const std::int64_t L = sizes_.layers, BT = sizes_.tokens.charged(), C = sizes_.hidden.charged(), NH = sizes_.heads.charged();
  const std::int64_t T = BT / sizes_.sequences.charged(), V = sizes_.vocab.charged(), BTC = BT * C;
  const Dtype number = knobs().precision.param, statistic = is_of_2024_ ? number : Dtype::fp32;
  const std::int64_t norms = recompute_ < 2 ? L : 0, gelus = recompute_ < 1 ? L : 1, projections = is_of_2024_ ? L : 0;
  const std::int64_t scratch = is_of_2024_ ? 0 : 1;
  return {{"encoded", BTC, number},
          {"ln1", norms * BTC, number},
          {"ln1_mean", L * BT, statistic},
          {"ln1_rstd", L * BT, statistic},
          {"atty", L * BTC, number},
          {"att", L * BT * NH * (uses_cudnn_ ? 1 : T), uses_cudnn_ ? Dtype::fp32 : number},
          {"attproj", projections * BTC, number},
          {"residual2", L * BTC, number},
          {"ln2", norms * BTC, number},
          {"ln2_mean", L * BT, statistic},
          {"ln2_rstd", L * BT, statistic},
          {"fch", L * 4 * BTC, number},
          {"fch_gelu", gelus * 4 * BTC, number},
          {"fcproj", projections * BTC, number},
          {"residual3", L * BTC, number},
          {"lnf", BTC, number},
          {"lnf_mean", BT, statistic},
          {"lnf_rstd", BT, statistic},
          {"losses", BT, statistic},
          {"qkvr", L * 3 * BTC, number},
          {"output", BT * std::max({3 * C, NH * T, V}), number},
          {"scratch_bt4c", scratch * 4 * BTC, number},
          {"scratch_btc", scratch * BTC, number}};
}

/// Of May 2024: what backward needs beside them.
std::vector<LlmcZero1::Array> LlmcZero1::gradients_of_activations() const {
  if (!is_of_2024_) return {};
  const std::int64_t BT = sizes_.tokens.charged(), BTC = BT * sizes_.hidden.charged();
  const std::int64_t probabilities = BT * sizes_.heads.charged() * (BT / sizes_.sequences.charged());
  const Dtype number = knobs().precision.param;
  return {{"bt4c", 4 * BTC, number}, {"residual3", BTC, number}, {"preatt", uses_cudnn_ ? 0 : probabilities, number}};
}

/// Whatever the passes hold lies in there from now on.
void LlmcZero1::allocate_activations() {
  sizes_ = *rank().model.gpt2();
  Tensor block;
  for (const std::vector<Array>& arrays : {activations(), gradients_of_activations()}) {
    std::int64_t bytes = 0;
    for (const Array& array : arrays) bytes += array.count * bytes_of(array.type);
    if (bytes > 0) block = alloc(Lane::compute, Band::activation, Dim(bytes, 0), Dtype::uint8);
  }
  device().place_in(block);
}

void LlmcZero1::make_bands() {
  check_options();
  const int n = is_sharded_ ? rank().world : 1, me = is_sharded_ ? mesh().world.me : 0;
  states_.resize(parameters().size());
  Dim all, mine;
  std::map<std::string, std::size_t> kinds;
  for (int p = 0; p < int(states_.size()); ++p) {
    State& s = states_[std::size_t(p)];
    const Dim count = parameters()[std::size_t(p)].count();
    std::vector<Dim> borders;
    for (int c = 0; c <= n; ++c) borders.push_back(count.part(count.charged() / n * c));
    s.begin = borders[std::size_t(me)], s.count = borders[std::size_t(me) + 1] - s.begin, s.at = mine;
    s.borders = std::make_shared<const std::vector<Dim>>(std::move(borders));
    all = all + count, mine = mine + s.count;
    const std::string& name = parameters()[std::size_t(p)].name;
    const std::string kind = name.starts_with("block") ? name.substr(name.find('.') + 1) : name;
    const auto [at, is_new] = kinds.emplace(kind, kinds_.size());
    if (is_new) kinds_.push_back({kind, {}});
    kinds_[at->second].parameters.push_back(p);
  }
  label(Verb::bind);
  params_ = alloc(Lane::compute, Band::param, all, knobs().precision.param);
  grads_ = zeros(Band::grad, all, knobs().precision.grad);
  m_ = zeros(Band::opt, mine, Dtype::fp32);
  v_ = zeros(Band::opt, mine, Dtype::fp32);
  if (knobs().precision.master) master_ = alloc(Lane::compute, Band::opt, mine, Dtype::fp32);  // beside fp32 parameters, too
  all = none;
  for (int p = 0; p < int(states_.size()); ++p) {
    State& s = states_[std::size_t(p)];
    const Dim count = parameters()[std::size_t(p)].count();
    s.param = params_.slice(all, count), s.grad = grads_.slice(all, count);
    upload_theta0(s.param, p, none, count);
    if (master_) upload_theta0(master_.slice(s.at, s.count), p, s.begin, s.count);
    all = all + count;
  }
  allocate_activations();

  layers_.resize(modules().size());
  for (int p = 0; p < int(states_.size()); ++p) {
    int m = parameters()[std::size_t(p)].module;
    const bool is_alone = modules()[std::size_t(m)].parent == 0;  // a child of the model that contains no modules
    while (modules()[std::size_t(m)].parent > 0) m = modules()[std::size_t(m)].parent;
    (is_alone ? others_ : layers_[std::size_t(m)]).push_back(p);
  }
}

/// The gradients are cleared before the first micro-batch adds to them.
void LlmcZero1::begin_micro_batch() {
  label(Verb::load);
  if (micro_batch().first) device().launch(Lane::compute, Fill{grads_, 0.f});
}

void LlmcZero1::pre_backward(int module) {
  const std::vector<int>& layer = layers_[std::size_t(module)];
  if (layer.empty() || recompute_ == 0) return;
  const Dtype type = knobs().precision.param;
  const auto scratch = [&](Dim cols, Dtype of) {
    return Held(device(), Lane::compute, device().alloc(Lane::compute, Band::workspace, sizes_.tokens, cols, of));
  };
  const Held before = scratch(4 * sizes_.hidden, type), after = scratch(4 * sizes_.hidden, type);
  device().launch(Lane::compute, Gelu{*before, *after});
  if (recompute_ < 2) return;
  const Held x = scratch(sizes_.hidden, type), y = scratch(sizes_.hidden, type), stats = scratch(2 * one, Dtype::fp32);
  for (const int p : {0, 6})  // ln1 and ln2, each a gain and a bias
    device().launch(Lane::compute,
                    Norm{*x, parameter(layer[std::size_t(p)]), parameter(layer[std::size_t(p) + 1]), *y, *stats, 1e-5f});
}

void LlmcZero1::post_backward(int module) {
  const std::vector<int>& layer = layers_[std::size_t(module)];
  if (micro_batch().last && !layer.empty()) reduce(layer, "backward of " + modules()[std::size_t(module)].name + " is over");
}

/// multi_gpu_async_reduce_gradient: an event, and one group of collectives behind it, each in place.
void LlmcZero1::reduce(const std::vector<int>& group, const std::string& trigger) {
  std::int64_t bytes = 0;
  order(Lane::compute, nccl(), Edge::gradient_before_reduction);
  for (const int p : group) {
    const State& s = states_[std::size_t(p)];
    label(is_sharded_ ? Verb::reduce_scatter : Verb::all_reduce, p);
    if (is_sharded_) fabric().reduce_scatter(nccl(), mesh().world, s.grad, s.own(s.grad), Payload::data, s.borders);
    else fabric().all_reduce(nccl(), mesh().world, s.grad);
    bytes += s.grad.bytes();
  }
  tell({trigger, "a group of " + std::to_string(group.size()) + (is_sharded_ ? " reduce_scatters" : " all_reduces") + ", in place",
        bytes, nccl(), "compute, up to there", ""});
  label(Verb::backward);
}

/// The loss is averaged on the main stream; then come the tensors that are no layer's, and cudaDeviceSynchronize.
void LlmcZero1::end_backward() {
  if (!micro_batch().last) return;
  label(Verb::all_reduce);
  const Held loss(device(), Lane::compute, alloc(Lane::compute, Band::workspace, one, Dtype::fp32));
  device().launch(Lane::compute, Fill{*loss, 0.f});
  fabric().all_reduce(Lane::compute, mesh().world, *loss, Payload::control);
  reduce(others_, "backward of the embeddings is over");
  order(nccl(), Lane::compute, Edge::reduction_before_update);
}

/// Tensor by tensor, all layers of it at once; the gathers of one run beside AdamW on the next.
void LlmcZero1::update() {
  std::vector<Tensor> gradients;
  for (const State& s : states_) gradients.push_back(s.own(s.grad));
  const Tensor factor = is_sharded_ ? update_factor(gradients, mesh().world) : update_factor(gradients);
  for (const Kind& kind : kinds_) {
    std::int64_t bytes = 0;
    std::vector<AdamTensors> list;
    for (const int p : kind.parameters) {
      const State& s = states_[std::size_t(p)];
      list.push_back({p, s.own(s.grad), master_ ? master_.slice(s.at, s.count) : s.own(s.param), m_.slice(s.at, s.count),
                      v_.slice(s.at, s.count), s.own(s.param)});
    }
    launch_adam(list, factor);
    if (!is_sharded_) continue;
    order(Lane::compute, nccl(), Edge::update_before_gather);
    for (const int p : kind.parameters) {
      const State& s = states_[std::size_t(p)];
      label(Verb::all_gather, p);
      fabric().all_gather(nccl(), mesh().world, s.own(s.param), s.param, Payload::data, s.borders);
      bytes += s.param.bytes();
    }
    tell({"AdamW of " + kind.name + " is over", "a group of " + std::to_string(kind.parameters.size()) + " all_gathers, in place",
          bytes, nccl(), "compute, up to there", ""});
  }
  if (is_sharded_) order(nccl(), Lane::compute, Edge::parameters_before_use);
  if (factor) device().free(Lane::compute, factor);
}

void LlmcZero1::append_theta(std::vector<ThetaPiece>& pieces) {
  for (int p = 0; p < int(states_.size()); ++p) {
    const State& s = states_[std::size_t(p)];
    pieces.push_back({p, s.begin, s.count, {}});
  }
  for (ThetaPiece& piece : pieces) {
    const State& s = states_[std::size_t(piece.unit)];
    device().download(Lane::compute, master_ ? master_.slice(s.at, s.count) : s.own(s.param), piece.values);
  }
}

}  // namespace shardsim
