// What a transformer holds and computes, counted op by op at full size, against the published closed forms.
#include <doctest/doctest.h>

#include "models/counting_device.h"
#include "models/transformer.h"
#include "models/transformer_start.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

constexpr double mib = 1024 * 1024;

/// A shape on paper: nothing is real.
TransformerSizes paper(const TransformerShape& shape, std::int64_t sequences, std::int64_t sequence) {
  const auto dim = [](std::int64_t n) { return Dim(n, 0); };
  TransformerSizes sizes;
  sizes.family = shape.family, sizes.layers = shape.layers;
  sizes.hidden = dim(shape.hidden), sizes.head_dim = dim(shape.head_dim), sizes.ffn = dim(shape.ffn);
  sizes.vocab = dim(shape.vocab), sizes.positions = dim(shape.positions);
  sizes.heads = {dim(shape.heads), dim(shape.kv_heads), dim(sequence)};
  sizes.sequences = dim(sequences);
  sizes.tied = shape.tied, sizes.biases = shape.biases;
  sizes.type = Dtype::bf16;
  return sizes;
}

/// GPT-2 Large with the seed experiment's vocabulary, 4 x 1024 tokens.
TransformerSizes gpt2_large() {
  TransformerShape shape = find_preset("gpt2-large")->shape;
  shape.vocab = 50304;
  return paper(shape, 4, 1024);
}

/// A model on a counting device, with its parameters and gradients.
struct Bench {
  explicit Bench(const TransformerSizes& sizes) : model(device, sizes, {}) {
    for (int module = 0; module < model.modules(); ++module) {
      const Dim count = count_of(model.layout(module));
      params.push_back(device.alloc(Lane::compute, Band::param, one, count, sizes.type));
      grads.push_back(device.alloc(Lane::compute, Band::grad, one, count, sizes.type));
    }
    model.begin_step(0, {});
    model.load(0, 0);
  }
  /// Bytes of activations that the visit leaves behind.
  std::int64_t forward(int visit) {
    const std::int64_t before = device.held(Band::activation);
    model.forward(visit, params[model.visits()[visit]]);
    return device.held(Band::activation) - before;
  }
  void backward(int visit) {
    const int module = model.visits()[visit];
    model.backward(visit, params[module], grads[module], false);
  }
  void forward_all() {
    for (int visit = 0; visit < int(model.visits().size()); ++visit) forward(visit);
  }
  void backward_all() {
    for (int visit = int(model.visits().size()) - 1; visit >= 0; --visit) backward(visit);
  }
  CountingDevice device;
  Transformer model;
  std::vector<Tensor> params, grads;
};

/// Activation bytes that one block keeps.
double kept_by_a_block(const TransformerSizes& sizes) {
  Bench bench(sizes);
  bench.forward(0);
  const std::int64_t first = bench.forward(1);
  CHECK(bench.device.held(Band::workspace) == 4);  // the loss; no temporary outlives its forward
  CHECK(bench.forward(2) == first);
  return double(first);
}

}  // namespace

TEST_CASE("a GPT-2 block keeps what autograd keeps: the rows of the published table, for every way to cut it into kernels") {
  const double s = 1024, b = 4, h = 1280, a = 20, sbh = s * b * h;
  struct Row {
    bool flash, fused;
    double per_sbh, mib_per_layer;
  };
  for (const Row& row : {Row{true, true, 32, 160.4}, Row{true, false, 56, 280.4}, Row{false, true, 32 + 2 * a * s / h, 321.1},
                         Row{false, false, 56 + 2 * a * s / h, 441.1}}) {
    INFO("flash " << row.flash << ", fused " << row.fused);
    TransformerSizes sizes = gpt2_large();
    sizes.plan.flash_attention = row.flash, sizes.plan.fused_activation = row.fused;
    const double statistics = 16 * s * b + (row.flash ? 4 * a * s * b : s * s);  // norms; log-sum-exp or the mask
    CHECK(kept_by_a_block(sizes) == row.per_sbh * sbh + statistics);
    CHECK(kept_by_a_block(sizes) / mib == doctest::Approx(row.mib_per_layer).epsilon(0.0005));
    sizes.plan.recompute.kind = Recompute::Kind::selective;  // the probabilities are not kept; a flash kernel has none
    CHECK(kept_by_a_block(sizes) == (row.fused ? 32 : 56) * sbh + 16 * s * b + (row.flash ? 4 * a * s * b : 0));
    sizes.plan.recompute.kind = Recompute::Kind::full;
    CHECK(kept_by_a_block(sizes) == 2 * sbh);
  }
}

TEST_CASE("with dropout a GPT-2 block keeps Korthikanti's 34 per token and hidden unit, and 5 a s/h of an attention written out") {
  const double s = 1024, b = 4, h = 1280, a = 20, sbh = s * b * h, norms = 16 * s * b;
  TransformerSizes sizes = gpt2_large();
  sizes.plan.hidden_dropout = 0.1;
  CHECK(kept_by_a_block(sizes) == 34 * sbh + norms + 4 * a * s * b);
  sizes.plan.flash_attention = false;
  CHECK(kept_by_a_block(sizes) == (34 + 2 * a * s / h) * sbh + norms + s * s);
  sizes.plan.attention_dropout = 0.1;
  CHECK(kept_by_a_block(sizes) == (34 + 5 * a * s / h) * sbh + norms + s * s);
  sizes.plan.recompute.kind = Recompute::Kind::selective;
  CHECK(kept_by_a_block(sizes) == 34 * sbh + norms);
  sizes.plan.recompute = {Recompute::Kind::full, 1, true};
  CHECK(kept_by_a_block(sizes) == 2 * sbh);
  // The last mask is what backward needs last, so nothing stops before the last product.
  Bench bench(sizes);
  bench.forward_all();
  bench.backward(int(bench.model.visits().size()) - 1);
  bench.device.forget_launches();
  bench.backward(sizes.layers);
  CHECK(bench.device.launches("matmul") == 8 + 4);
  CHECK(bench.device.launches("dropout") == 3);
  CHECK(bench.device.launches("dropout_backward") == 3);
}

TEST_CASE("a Llama block keeps 12 + 4g + 8f per token and hidden unit, or 2f less with SwiGLU in one kernel") {
  for (const char* name : {"llama-7b", "llama-3-8b"}) {
    INFO(name);
    const TransformerShape& shape = find_preset(name)->shape;
    const double T = 2 * 512, h = double(shape.hidden), g = double(shape.kv_heads) / double(shape.heads), f = double(shape.ffn) / h;
    TransformerSizes sizes = paper(shape, 2, 512);
    const double statistics = 2 * 4 * T + 4 * double(shape.heads) * T;
    sizes.plan.fused_activation = false;
    CHECK(kept_by_a_block(sizes) == doctest::Approx((12 + 4 * g + 8 * f) * T * h + statistics).epsilon(1e-12));
    sizes.plan.fused_activation = true;
    CHECK(kept_by_a_block(sizes) == doctest::Approx((12 + 4 * g + 6 * f) * T * h + statistics).epsilon(1e-12));
  }
}

TEST_CASE("every n-th block is computed again, and its backward holds one block's activations for a moment") {
  TransformerSizes sizes = gpt2_large();
  const double whole = kept_by_a_block(sizes), input = 2.0 * 4 * 1024 * 1280;
  sizes.plan.recompute = {Recompute::Kind::full, 2, true};
  Bench bench(sizes);
  bench.forward(0);
  for (int block = 0; block < sizes.layers; ++block) CHECK(double(bench.forward(block + 1)) == (block % 2 == 0 ? input : whole));
}

TEST_CASE("a block that is computed again skips its last product, unless it is told not to stop early") {
  for (const bool early_stop : {true, false}) {
    TransformerSizes sizes = gpt2_large();
    sizes.plan.recompute = {Recompute::Kind::full, 1, early_stop};
    Bench bench(sizes);
    bench.forward_all();
    bench.backward(int(bench.model.visits().size()) - 1);
    bench.device.forget_launches();
    bench.backward(sizes.layers);
    CHECK(bench.device.launches("matmul") == 8 + (early_stop ? 3 : 4));
    CHECK(bench.device.launches("attention") == 1);
  }
}

TEST_CASE(
    "at its worst the loss holds 8 bytes per logit in bf16, 20 with fp32 logits, 2 when it is fused, and 6 in place in fp32") {
  using Loss = TransformerPlan::Loss;
  for (const auto& [loss, per_logit] :
       {std::pair{Loss::unfused, 8.0}, {Loss::fp32, 20.0}, {Loss::fused, 2.0}, {Loss::fp32_fused, 6.0}}) {
    TransformerSizes sizes = gpt2_large();
    sizes.plan.loss = loss;
    Bench bench(sizes);
    const int last = int(bench.model.visits().size()) - 1;
    for (int visit = 0; visit < last; ++visit) bench.forward(visit);
    const double before = double(bench.device.held());
    bench.device.forget_peak();
    bench.forward(last);
    bench.backward(last);
    const double T = 4 * 1024, normed = 2 * T * 1280 + 8 * T;  // the final norm's output and statistics
    // The fused loss is worst a moment later: the targets are gone, and the gradient of the normed is there.
    const double later = loss == Loss::fused ? 2 * T * 1280 - 8 * T : 0;
    CHECK(double(bench.device.peak()) - before == per_logit * T * 50304 + normed + later);
  }
}

TEST_CASE("nothing is left of a step but parameters and gradients, in every plan") {
  for (const char* name : {"gpt2", "llama-3-8b"})
    for (const bool flash : {true, false})
      for (const bool fused : {true, false})
        for (const auto kind : {Recompute::Kind::none, Recompute::Kind::selective, Recompute::Kind::full})
          for (const auto loss : {TransformerPlan::Loss::fused, TransformerPlan::Loss::unfused, TransformerPlan::Loss::fp32,
                                  TransformerPlan::Loss::fp32_fused}) {
            TransformerSizes sizes = paper(find_preset(name)->shape, 2, 64);
            sizes.layers = 2;
            sizes.plan = {flash, fused, loss, {kind, 1, true}};
            if (name == std::string("gpt2")) sizes.plan.hidden_dropout = 0.1, sizes.plan.attention_dropout = flash ? 0 : 0.1;
            Bench bench(sizes);
            bench.forward_all();
            bench.backward_all();
            std::vector<float> value;
            bench.model.end_step(value);
            CHECK(bench.device.held(Band::activation) == 0);
            CHECK(bench.device.held(Band::workspace) == 0);
          }
}

TEST_CASE("floating-point operations of a step are the closed forms: 6 per weight and token, and the attention's square") {
  const double T = 4096, h = 1280, L = 36, V = 50304, s = 1024, b = 4;
  TransformerSizes sizes = gpt2_large();
  sizes.plan.flash_attention = false;
  Bench bench(sizes);
  bench.forward_all();
  const double products = 2 * (12 * h * h * L + V * h) * T, square = 4 * b * s * s * h * L;
  CHECK(bench.device.flops() == products + square);
  CHECK(bench.device.flops() == doctest::Approx(7.10e12).epsilon(0.01));
  bench.backward_all();
  CHECK(bench.device.flops() == 3 * (products + square));
  const double korthikanti = 72 * b * L * s * h * h * (1 + s / (6 * h) + V / (12 * h * L));
  CHECK(bench.device.flops() == doctest::Approx(korthikanti).epsilon(0.01));

  TransformerSizes flash = gpt2_large();  // computes the causal half only, and that once more in its backward
  Bench thrifty(flash);
  thrifty.forward_all();
  CHECK(thrifty.device.flops() == products + square / 2);
  thrifty.backward_all();
  CHECK(thrifty.device.flops() == 3 * products + 3.5 * square / 2);
}

TEST_CASE("a model's layouts hold as many parameters as its shape says, and as many as its start draws") {
  for (const Preset& preset : presets())
    for (const bool tied : {true, false}) {
      INFO(preset.name);
      TransformerShape shape = preset.shape;
      shape.tied = tied;
      CountingDevice device;
      const Transformer model(device, paper(shape, 1, 8), {});
      std::int64_t count = 0, started = 0;
      std::size_t weights = 0;
      for (int module = 0; module < model.modules(); ++module) {
        count += count_of(model.layout(module)).charged();
        weights += model.layout(module).size();
      }
      CHECK(count == parameters(shape));
      const std::vector<Start> all = starts(shape);
      for (const Start& start : all) started += start.count;
      CHECK(started == count);
      CHECK(all.size() == weights);
      CHECK(model.visits().size() == std::size_t(shape.layers) + 2);
    }
}
