// Why a run does not fit, and what would make it: the estimates are those of runs with the knob turned.
#include <doctest/doctest.h>

#include <algorithm>

#include "app/metrics.h"
#include "app/remedy.h"
#include "app/scenarios.h"
#include "property/runs.h"

using namespace shardsim;
using memory::MiB;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const Remedy* find(const std::vector<Remedy>& remedies, const std::string& knob) {
  for (const Remedy& remedy : remedies)
    if (remedy.knob == knob) return &remedy;
  return nullptr;
}

/// On GPUs that are far too small.
std::vector<Remedy> remedies_of(const Scenario& scenario, const std::string& scheme) {
  SchemeResult result = test::run(scenario, scheme);
  result.gpu.memory_bytes = 1;
  return remedies(scenario, result, measure(scenario, result));
}

double needed(const Scenario& scenario, const std::string& scheme) {
  return double(measure(scenario, test::run(scenario, scheme)).needed_bytes());
}

/// Twelve equal layers; activations of the size of the parameters.
Scenario deep() {
  Scenario s = test::small_scenario();
  s.model.widths.assign(13, 256);
  s.micro_batch = 128;
  s.numerics = Numerics::off;
  s.knobs.precision = {Dtype::bf16, Dtype::bf16, Dtype::bf16};
  s.steps = 2;
  return s;
}

}  // namespace

TEST_CASE("what a remedy promises, a run with it needs") {
  const Scenario s = deep();
  struct Turn {
    const char *scheme, *knob, *then;
    void (*turn)(Scenario&);
  };
  const auto nothing = [](Scenario&) {};
  for (const Turn& turn : {Turn{"dp", "scheme zero1", "zero1", nothing}, Turn{"dp", "scheme zero2", "zero2", nothing},
                           Turn{"dp", "scheme zero3", "zero3", nothing}, Turn{"zero2", "scheme zero3", "zero3", nothing},
                           Turn{"dp", "grads: transient", "dp", [](Scenario& t) { t.knobs.grads_resident = false; }},
                           Turn{"zero2", "unreduced: 0", "zero2", [](Scenario& t) { t.knobs.unreduced = 0; }},
                           Turn{"zero3", "prefetch: 0", "zero3", [](Scenario& t) { t.knobs.prefetch = 0; }},
                           Turn{"dp", "batch: {micro: 1, accumulation: 128}", "dp",
                                [](Scenario& t) { t.micro_batch = 1, t.knobs.accumulation = 128; }}}) {
    CAPTURE(turn.scheme);
    CAPTURE(turn.knob);
    const std::vector<Remedy> found = remedies_of(s, turn.scheme);
    const Remedy* remedy = find(found, turn.knob);
    REQUIRE(remedy != nullptr);
    Scenario turned = s;
    turn.turn(turned);
    const double then = needed(turned, turn.then), before = needed(s, turn.scheme);
    CHECK(remedy->bytes < before);
    CHECK(remedy->bytes == doctest::Approx(then).epsilon(0.06));
  }
}

TEST_CASE("remedies come in the order of their cost, and only those that apply") {
  const std::vector<Remedy> of_dp = remedies_of(deep(), "dp");
  CHECK(std::is_sorted(of_dp.begin(), of_dp.end(), [](const Remedy& a, const Remedy& b) { return a.cost < b.cost; }));
  CHECK(find(of_dp, "prefetch: 0") == nullptr);
  CHECK(find(of_dp, "unreduced: 0") == nullptr);
  CHECK(find(of_dp, "model.recompute: full") == nullptr);  // a perceptron has none
  CHECK(find(of_dp, "memory.expandable_segments: on") == nullptr);
  REQUIRE(find(of_dp, "scheme zero3"));
  CHECK(find(of_dp, "scheme zero3")->cost == doctest::Approx(0.5));  // 2P -> 3P
  CHECK(find(of_dp, "scheme zero3")->at == "traffic 2 -> 3");
  CHECK(find(of_dp, "scheme zero1")->at == "at the same traffic");
  const std::vector<Remedy> of_zero3 = remedies_of(deep(), "zero3");
  CHECK(find(of_zero3, "scheme zero3") == nullptr);
  CHECK(find(of_zero3, "batch: {micro: 1, accumulation: 128}")->cost == doctest::Approx(127));  // 3P -> 384P
  CHECK(find(remedies_of(deep(), "zero3_keep"), "prefetch: 0") == nullptr);                     // it keeps its gathers on purpose
}

TEST_CASE("a transformer can compute its layers anew, or not keep its attention's scores") {
  Scenario s = deep();
  TransformerChoice gpt2;
  gpt2.shape = find_preset("gpt2")->shape;
  gpt2.sequence = 512;
  gpt2.plan.flash_attention = false;
  s.transformer = gpt2;
  s.micro_batch = 4;
  const std::vector<Remedy> found = remedies_of(s, "zero1");
  const Remedy *full = find(found, "model.recompute: full"), *flash = find(found, "model.attention: flash");
  REQUIRE(full);
  REQUIRE(flash);
  CHECK(full->cost == doctest::Approx(1.0 / 3));
  const double before = needed(s, "zero1");
  Scenario turned = s;
  turned.transformer->plan.recompute.kind = Recompute::Kind::full;
  const double recomputed = needed(turned, "zero1");
  CHECK(recomputed < before);
  CHECK(full->bytes >= recomputed);  // too careful: a layer's activations and the logits are not held at once
  CHECK(full->bytes <= 1.1 * recomputed);
  turned = s;
  turned.transformer->plan.flash_attention = true;
  const double fused = needed(turned, "zero1");
  CHECK(fused < before);
  CHECK(flash->bytes >= fused);  // promised is the softmax's output alone
  CHECK(flash->bytes < before);
}

TEST_CASE("PyTorch's allocator has remedies of its own") {
  Scenario s = deep();
  s.model.widths.assign(13, 1024);
  s.memory.torch = s.memory.has_outside = true;
  s.knobs.streams = 3;
  const std::vector<Remedy> found = remedies_of(s, "zero3");
  const Remedy *segments = find(found, "memory.expandable_segments: on"), *stream = find(found, "streams: 1");
  REQUIRE(segments);
  REQUIRE(stream);
  CHECK(stream->cost > 0);
  Scenario expandable = s;
  expandable.memory.options.expandable_segments = true;
  CHECK(segments->bytes == doctest::Approx(needed(expandable, "zero3")).epsilon(0.15));
}

TEST_CASE("a run that does not fit is told with its composition and the cheapest remedy that would do") {
  Scenario s;
  s.world = 2;
  SchemeResult result = test::made_by_hand("dp");
  result.gpu.memory_bytes = 1400;
  const auto text = [&] { return misfit_text(s, result, measure(s, result)); };
  CHECK(text() ==
        "dp does not fit: its peak of 1.66 KiB is more than the 1.37 KiB of a tiny. At the peak: 400 B param + 400 B grad + 800 B "
        "opt + 101 B activation. Cheapest remedy: scheme zero1 (about 1.27 KiB, at the same traffic).");
  result.gpu.memory_bytes = 100;
  CHECK(has(text(), "None of these alone would do: scheme zero1 (about 1.27 KiB), "));
  result.ranks[1].allocator.has_outside = true, result.ranks[1].allocator.outside = 1024;
  CHECK(has(text(), "its peak of 1.66 KiB and 1.00 KiB outside (context and communicators) are more than the 100 B of a tiny."));
}

TEST_CASE("what PyTorch's allocator had reserved is told by band, with what was cached") {
  Scenario s;
  s.world = 2;
  SchemeResult result = test::made_by_hand("dp");
  for (RankResult& rank : result.ranks) {
    rank.allocator.emulated = rank.allocator.has_outside = true;
    rank.allocator.reserved = 20 * MiB, rank.allocator.expandable = 18 * MiB, rank.allocator.awaiting = 2 * MiB;
    rank.allocator.cached = 3 * MiB, rank.allocator.bands[unsigned(Band::opt)] = 15 * MiB;
    rank.allocator.outside = MiB, rank.allocator.out_of_memory = 5 * MiB;
  }
  result.gpu.memory_bytes = 19 * MiB;
  const std::string text = misfit_text(s, result, measure(s, result));
  CHECK(has(text,
            "dp does not fit: 20.00 MiB reserved and 1.00 MiB outside (context and communicators) are more than the 19.00 MiB"));
  CHECK(has(text, "The first request that found no room was for 5.00 MiB; the run went on without a limit."));
  CHECK(has(text, "At the peak: 15.00 MiB opt + 2.00 MiB freed but in use on another stream + 3.00 MiB cached."));
  CHECK(has(text, "Cheapest remedy: memory.expandable_segments: on (about 19.00 MiB, less fragmentation)."));
}
