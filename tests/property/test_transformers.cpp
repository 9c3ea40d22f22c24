// Transformers under every scheme: the same bits everywhere, and seconds and bytes that do not know how thin the arithmetic is.
#include <doctest/doctest.h>

#include <cmath>

#include "app/metrics.h"
#include "app/scenario_model.h"
#include "runs.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

TransformerShape small_shape(Family family, bool tied) {
  TransformerShape shape;
  shape.family = family, shape.tied = tied, shape.biases = family == Family::gpt2;
  shape.layers = 2, shape.hidden = 24, shape.heads = 4, shape.kv_heads = family == Family::gpt2 ? 4 : 2, shape.head_dim = 6;
  shape.ffn = 40, shape.vocab = 29, shape.positions = 12;  // nothing divides by 3 or by 8
  return shape;
}

Scenario small_transformer(Family family, bool tied) {
  Scenario s = small_scenario();
  s.model = {}, s.world = 3, s.steps = 3, s.micro_batch = 2;
  s.transformer = TransformerChoice{};
  s.transformer->shape = small_shape(family, tied);
  s.transformer->sequence = 8;
  s.knobs.clip = 0.5f;
  return s;
}

std::uint64_t theta_of(const Scenario& s, const std::string& scheme) {
  const SchemeResult result = run(s, scheme);
  REQUIRE(result.theta.size() == std::size_t(result.parameters));
  REQUIRE(result.ranks[0].losses.size() == std::size_t(s.steps));
  return hash_of(result.theta);
}

const std::pair<Family, bool> models[] = {
    {Family::gpt2, true}, {Family::gpt2, false}, {Family::llama, false}, {Family::llama, true}};

}  // namespace

TEST_CASE("dp, zero1, zero2 and zero3 train a GPT-2 and a Llama, tied or not, to the same bits on simgrid and on threads") {
  for (const auto& [family, tied] : models) {
    INFO("family " << int(family) << ", tied " << tied);
    Scenario s = small_transformer(family, tied);
    const std::uint64_t expected = theta_of(s, "dp");
    for (const Cut cut : {Cut{Cut::Kind::layer, 0}, Cut{Cut::Kind::whole, 0}, Cut{Cut::Kind::bucket, 9000}})
      for (const int streams : {1, 3}) {
        s.knobs.units = cut, s.knobs.streams = streams, s.knobs.prefetch = streams - 1;
        if (streams == 3 || cut.kind == Cut::Kind::whole)
          for (const std::string& scheme : schemes()) {
            INFO(scheme << ", cut " << int(cut.kind) << ", streams " << streams);
            s.backend = "simgrid";
            // Where units differ, padding differs, and with it the parts of the norm; within one cut all schemes agree.
            const std::uint64_t of_dp = cut.kind == Cut::Kind::layer ? expected : theta_of(s, "dp");
            CHECK(theta_of(s, scheme) == of_dp);
            s.backend = "threads";
            CHECK(theta_of(s, scheme) == of_dp);
          }
      }
  }
}

TEST_CASE("with micro-batches dp is zero1 and zero2 is zero3, for transformers too, in bf16 and at every way to cut the kernels") {
  for (const auto& [family, tied] : models)
    for (const bool flash : {true, false}) {
      INFO("family " << int(family) << ", tied " << tied << ", flash " << flash);
      Scenario s = small_transformer(family, tied);
      s.knobs.accumulation = 2;
      s.knobs.precision = {Dtype::bf16, Dtype::bf16, Dtype::fp32};
      s.transformer->plan = {flash, flash, flash ? TransformerPlan::Loss::fp32 : TransformerPlan::Loss::unfused, {}};
      CHECK(theta_of(s, "dp") == theta_of(s, "zero1"));
      CHECK(theta_of(s, "zero2") == theta_of(s, "zero3"));
    }
}

TEST_CASE("dropout drops the same in every scheme, on both backends, and again where it is computed again") {
  for (const bool tied : {true, false}) {
    Scenario s = small_transformer(Family::gpt2, tied);
    s.knobs.accumulation = 2;
    const std::uint64_t without = theta_of(s, "dp");
    TransformerPlan& plan = s.transformer->plan;
    plan.flash_attention = false, plan.hidden_dropout = 0.2, plan.attention_dropout = 0.1;
    CHECK(theta_of(s, "dp") != without);
    CHECK(theta_of(s, "dp") == theta_of(s, "zero1"));
    const std::uint64_t sharded = theta_of(s, "zero3");
    CHECK(theta_of(s, "zero2") == sharded);
    s.backend = "threads";
    CHECK(theta_of(s, "zero3") == sharded);
    s.backend = "simgrid";
    for (const Recompute recompute : {Recompute{Recompute::Kind::selective, 1, true}, Recompute{Recompute::Kind::full, 1, true},
                                      Recompute{Recompute::Kind::full, 2, false}}) {
      plan.recompute = recompute;
      CHECK(theta_of(s, "zero3") == sharded);
    }
    plan.recompute = {};
    s.seed = s.seed + 1;
    CHECK(theta_of(s, "zero3") != sharded);
  }
}

TEST_CASE("a model with dropout learns, and begins at the loss of one without, but for the noise") {
  Scenario s = small_transformer(Family::gpt2, true);
  s.steps = 60, s.knobs.adam.lr = 3e-3f;
  const std::vector<float> plain = run(s, "dp").ranks[0].losses;
  s.transformer->plan.hidden_dropout = 0.1;
  const SchemeResult dropped = run(s, "dp");
  CHECK(dropped.ranks[0].losses.back() < 0.95f * dropped.ranks[0].losses.front());
  CHECK(dropped.ranks[0].losses.front() == doctest::Approx(plain.front()).epsilon(0.05));
  CHECK(dropped.ranks[0].losses.front() != plain.front());
}

TEST_CASE("what is computed again has the bits of what is kept") {
  for (const auto& [family, tied] : models)
    for (const bool flash : {true, false}) {
      Scenario s = small_transformer(family, tied);
      s.transformer->plan.flash_attention = s.transformer->plan.fused_activation = flash;
      const std::uint64_t kept = theta_of(s, "zero3");
      for (const Recompute recompute : {Recompute{Recompute::Kind::selective, 1, true}, Recompute{Recompute::Kind::full, 1, true},
                                        Recompute{Recompute::Kind::full, 2, false}}) {
        s.transformer->plan.recompute = recompute;
        CHECK(theta_of(s, "zero3") == kept);
      }
    }
}

TEST_CASE("numerics full, twin and off give the same seconds and bytes of everything, to the bit") {
  for (const auto& [family, tied] : models)
    for (const std::string& scheme : schemes())
      for (const bool clips : {false, true}) {
        INFO("family " << int(family) << ", tied " << tied << ", " << scheme);
        Scenario s = small_transformer(family, tied);
        if (!clips) s.knobs.clip = 0;
        s.knobs.decays_matrices_only = clips, s.knobs.adam.weight_decay = 0.1f;
        s.transformer->plan.fused_activation = s.transformer->plan.flash_attention = clips;
        if (family == Family::gpt2)
          s.transformer->plan.hidden_dropout = 0.1, s.transformer->plan.attention_dropout = clips ? 0 : 0.1;
        s.transformer->twin_hidden = 8, s.transformer->twin_heads = 2, s.transformer->twin_vocab = 5;
        s.transformer->twin_sequence = 3;
        const SchemeResult full = run(s, scheme);
        for (const Numerics numerics : {Numerics::twin, Numerics::off}) {
          s.numerics = numerics;
          const SchemeResult thin = run(s, scheme);
          REQUIRE(thin.ranks.size() == full.ranks.size());
          for (std::size_t r = 0; r < full.ranks.size(); ++r) {
            const RankResult &a = full.ranks[r], &b = thin.ranks[r];
            CHECK(a.step_begin == b.step_begin);
            CHECK(a.step_end == b.step_end);
            CHECK(a.traffic_bytes == b.traffic_bytes);
            CHECK(a.control_bytes == b.control_bytes);
            CHECK(a.peak.bytes == b.peak.bytes);
            CHECK(a.peak.seconds == b.peak.seconds);
            REQUIRE(a.spans.size() == b.spans.size());
            for (std::size_t i = 0; i < a.spans.size(); ++i) {
              CHECK(a.spans[i].begin == b.spans[i].begin);
              CHECK(a.spans[i].end == b.spans[i].end);
              CHECK(a.spans[i].bytes == b.spans[i].bytes);
            }
            REQUIRE(a.entries.size() == b.entries.size());
            for (std::size_t i = 0; i < a.entries.size(); ++i) {
              CHECK(a.entries[i].seconds == b.entries[i].seconds);
              CHECK(a.entries[i].bytes == b.entries[i].bytes);
            }
          }
        }
      }
}

TEST_CASE("a tied embedding is gathered for both of its turns and reduced once, when its gradient is complete") {
  Scenario s = small_transformer(Family::gpt2, true);
  s.fabric = Fidelity::ring, s.knobs.clip = 0, s.world = 4;
  const double n = s.world, part = (n - 1) / n;
  const auto sent = [&](const char* scheme) { return double(run(s, scheme).ranks[0].traffic_bytes) / s.steps; };
  const SchemeResult dp = run(s, "dp");
  double padded = 0;
  for (const std::int64_t unit : dp.unit_parameters) padded += double((unit + s.world - 1) / s.world * s.world);
  const double all = padded * 4 * part;
  const double root = double((dp.unit_parameters[0] + s.world - 1) / s.world * s.world) * 4 * part;
  CHECK(double(dp.ranks[0].traffic_bytes) / s.steps == 2 * all);
  CHECK(sent("zero1") == 2 * all);
  CHECK(sent("zero2") == 2 * all);
  CHECK(sent("zero3") == 3 * all + 2 * root);
  s.knobs.units = {Cut::Kind::whole, 0};
  CHECK(sent("zero3") == doctest::Approx(3 * all).epsilon(0.001));  // one unit, one turn
}

TEST_CASE("a text of a megabyte, bytes as tokens, gives dp and zero3 one loss curve on eight ranks, and is learned") {
  const Scratch scratch;
  std::string text;
  for (std::uint32_t state = 1; text.size() < 1'100'000; state = state * 1664525u + 1013904223u) {
    const char* words[] = {"the ", "band ", "of ", "a ", "unit ", "is\n", "\xc3\xa9t\xc3\xa9 ", "sharded; "};
    text += words[state >> 29];
  }
  scratch.write("text.txt", text);
  Scenario s = small_transformer(Family::gpt2, true);
  s.world = 8, s.steps = 30, s.micro_batch = 2;
  s.transformer->shape.vocab = 256, s.transformer->shape.positions = s.transformer->sequence = 16;
  s.data.text = scratch / "text.txt";
  const SchemeResult dp = run(s, "dp"), zero3 = run(s, "zero3");
  for (std::size_t rank = 0; rank < dp.ranks.size(); ++rank) CHECK(dp.ranks[rank].losses == zero3.ranks[rank].losses);
  CHECK(dp.theta == zero3.theta);
  CHECK(dp.ranks[0].losses.front() > 5.f);  // about ln 256
  CHECK(dp.ranks[0].losses.back() < 3.5f);
}

TEST_CASE("a seeded language is learned almost to its entropy, and not below it by more than three standard errors") {
  Scenario s = small_transformer(Family::llama, false);
  s.world = 4, s.steps = 300, s.micro_batch = 4, s.knobs.clip = 1;
  s.transformer->shape = {.family = Family::llama,
                          .layers = 1,
                          .hidden = 32,
                          .heads = 2,
                          .kv_heads = 1,
                          .head_dim = 16,
                          .ffn = 64,
                          .vocab = 32,
                          .positions = 16,
                          .tied = false,
                          .biases = false};
  s.transformer->sequence = 16;
  s.knobs.schedule = {.warmup = 20, .decay_steps = 300, .floor = 0.02};
  const formats::Figures figures = measure(s, run(s, "zero1"));
  REQUIRE(figures.entropy);
  CHECK(*figures.entropy == doctest::Approx(1.75 * std::log(2)).epsilon(1e-12));
  CHECK(figures.loss_last_tenth() < 1.04 * *figures.entropy);
  CHECK(figures.loss_last_tenth() > *figures.entropy - 3 * figures.loss_deviation);
  CHECK(figures.losses.front() > 2.5 * *figures.entropy);
}

TEST_CASE("a host that runs ahead of its launch queue is held up at the same dates, whatever the numerics and the allocator") {
  // Launch-bound and kernel-bound by turns, and far more operations than the queue of 1024 holds.
  for (const double launch : {2e-6, 5e-6}) {
    IdealGpus gpus;
    gpus.launch_seconds = launch, gpus.kernel_seconds = 3e-6;
    const PlatformFile platform(gpus);
    Scenario s = small_transformer(Family::llama, false);
    s.platform = platform.path();
    s.world = 2, s.steps = 1, s.transformer->shape.layers = 24, s.transformer->plan.flash_attention = false;
    s.knobs.accumulation = 2, s.knobs.grads_resident = false, s.knobs.adam.passes = AdamPasses::for_loop;
    s.transformer->twin_hidden = 8, s.transformer->twin_heads = 2, s.transformer->twin_sequence = 3;
    for (const char* scheme : {"dp", "zero3"}) {
      INFO(scheme << ", launch " << launch);
      s.numerics = Numerics::full, s.memory.torch = false;
      const SchemeResult full = run(s, scheme);
      CHECK(full.ranks[0].spans.size() > 2000);
      for (const bool torch : {false, true})
        for (const Numerics numerics : {Numerics::full, Numerics::twin, Numerics::off}) {
          s.numerics = numerics, s.memory.torch = torch;
          const SchemeResult other = run(s, scheme);
          for (std::size_t r = 0; r < full.ranks.size(); ++r) {
            CHECK(other.ranks[r].step_end == full.ranks[r].step_end);
            REQUIRE(other.ranks[r].spans.size() == full.ranks[r].spans.size());
            std::size_t differing = 0;
            for (std::size_t i = 0; i < full.ranks[r].spans.size(); ++i)
              differing += other.ranks[r].spans[i].begin != full.ranks[r].spans[i].begin;
            CHECK(differing == 0);
          }
        }
    }
  }
}

TEST_CASE("hsdp trains tied models too, to the loss of dp but for another order of the sums") {
  for (const Family family : {Family::gpt2, Family::llama}) {
    Scenario s = small_transformer(family, true);
    s.world = 4, s.knobs.shards = 2;
    const SchemeResult dp = run(s, "dp"), hsdp = run(s, "hsdp");
    REQUIRE(hsdp.ranks[0].losses.size() == dp.ranks[0].losses.size());
    for (std::size_t step = 0; step < dp.ranks[0].losses.size(); ++step)
      CHECK(hsdp.ranks[0].losses[step] == doctest::Approx(dp.ranks[0].losses[step]).epsilon(1e-5));
  }
}
