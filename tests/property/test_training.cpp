// What a careful reader of the textbook asks next: replicas of shards, accumulation, clipping, half precision with loss scaling,
// schedules and decay groups.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>

#include "core/error.h"
#include "formats/npy.h"
#include "runs.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

const PlatformFile& twelve_gpus() {
  static const PlatformFile platform([] {
    IdealGpus gpus;
    gpus.gpus = 12;
    return gpus;
  }());
  return platform;
}

/// Eight inputs to four outputs, fp16; the targets of rank 1 of 4 are so large that its scaled gradient overflows.
Scenario overflowing(const Scratch& scratch, float target) {
  const std::int64_t rows = 12;
  std::vector<float> x(rows * 8), y(rows * 4, 0.1f);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = float(i % 7) / 7.f - 0.4f;
  for (std::int64_t row = 3; row < 6; ++row)  // rank 1 of 4 with three rows each
    for (int j = 0; j < 4; ++j) y[std::size_t(row * 4 + j)] = target;
  formats::write_npy(scratch / "x.npy", {rows, 8}, x);
  formats::write_npy(scratch / "y.npy", {rows, 4}, y);
  Scenario s = small_scenario();
  s.model.widths = {8, 16, 4};
  s.data.x = scratch / "x.npy", s.data.y = scratch / "y.npy";
  s.knobs.precision = {Dtype::fp16, Dtype::fp16, Dtype::fp16};
  s.knobs.loss_scale = {.on = true, .dynamic = true, .initial = 1024.f};
  s.steps = 1;
  return s;
}

}  // namespace

TEST_CASE("every scheme launches the same on simgrid and on threads, in the same order on each stream") {
  Scenario s = small_scenario();
  s.steps = 2, s.knobs.streams = 3;
  const auto launches = [&](const std::string& scheme, const std::string& backend) {
    s.backend = backend;
    std::vector<std::vector<int>> of_lane(lane_count);
    const SchemeResult result = run(s, scheme);
    for (const Span& span : result.ranks[0].spans)
      of_lane[std::size_t(span.lane)].insert(of_lane[std::size_t(span.lane)].end(), {int(span.verb), span.unit, span.op});
    return of_lane;
  };
  for (const char* scheme : {"dp", "zero1", "zero2", "zero3", "zero3_keep"}) {
    CAPTURE(scheme);
    for (const int world : {1, 4}) {
      s.world = world;
      const auto simulated = launches(scheme, "simgrid");
      CHECK(!simulated[0].empty());
      CHECK(simulated == launches(scheme, "threads"));
    }
  }
}

TEST_CASE("hsdp sends 3(S-1)/S + 2(R-1)/(RS) of the parameters per rank, at every factorisation of 8 and of 12") {
  for (const int world : {8, 12})
    for (int shards = 1; shards <= world; ++shards) {
      if (world % shards != 0) continue;
      for (const int accumulation : {1, 3}) {
        const int replicas = world / shards;
        INFO(replicas << " x " << shards << ", accumulation " << accumulation);
        Scenario s = small_scenario();
        s.platform = twelve_gpus().path();
        s.world = world;
        s.fabric = Fidelity::ring;  // counted from messages
        s.knobs.shards = shards;
        s.knobs.accumulation = accumulation;
        s.micro_batch = 1, s.steps = 1;
        const SchemeResult result = run(s, "hsdp");
        const double bytes = 4.0 * double(padded_parameters(result));
        const double expected = (accumulation * 3.0 * (shards - 1) / shards + 2.0 * (replicas - 1) / (replicas * shards)) * bytes;
        for (const RankResult& rank : result.ranks) CHECK(double(rank.traffic_bytes) == doctest::Approx(expected).epsilon(1e-12));
      }
    }
}

TEST_CASE("numbers have to fit into this machine: of a scheme that shards over all ranks, whatever the mesh says of others") {
  Scenario s = small_scenario();
  s.world = 64, s.knobs.shards = 1;
  // 16 bytes per parameter for a copy: an eighth of this machine's memory, which hsdp would hold 64 times.
  const double memory = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGESIZE));
  const auto width = std::int64_t(std::sqrt(memory / 8 / 16));
  s.model.widths = {width, width};
  const Registry registry = built_in_schemes();
  const auto check = [&](const char* scheme) { check_that_numbers_fit(s, *registry.find(scheme)); };
  CHECK_NOTHROW(check("zero3"));
  CHECK_THROWS_WITH_AS(check("hsdp"), doctest::Contains("the numbers of 64 ranks are at least"), ScenarioError);
  CHECK_THROWS_AS(check("dp"), ScenarioError);
  s.knobs.shards = 64;
  CHECK_NOTHROW(check("hsdp"));
  s.micro_batch = std::int64_t(memory / 4 / 64 / double(width));  // what goes in and what comes out: twice the memory
  CHECK_THROWS_WITH_AS(check("hsdp"), doctest::Contains("or a smaller batch"), ScenarioError);
  s.numerics = Numerics::off;
  CHECK_NOTHROW(check("hsdp"));
}

TEST_CASE("hsdp with one replica has zero3's bits, and several replicas differ by rounding only") {
  for (const char* backend : {"simgrid", "threads"}) {
    Scenario s = small_scenario();
    s.backend = backend;
    s.world = 8;
    s.knobs.clip = 0.05f;
    s.knobs.shards = 8;
    const SchemeResult zero3 = run(s, "zero3");
    CHECK(run(s, "hsdp").theta == zero3.theta);
    s.knobs.shards = 1;  // all replicas: dp's one ring over all ranks, so its bits, which are zero3's
    CHECK(run(s, "hsdp").theta == zero3.theta);
    for (const int shards : {2, 4}) {
      s.knobs.shards = shards;
      const SchemeResult hsdp = run(s, "hsdp");
      double most = 0;
      for (std::size_t i = 0; i < hsdp.theta.size(); ++i)
        most = std::max(most, std::abs(double(hsdp.theta[i]) - double(zero3.theta[i])));
      CHECK(most > 0);
      CHECK(most < 1e-4);
      CHECK(hsdp.ranks[0].losses.front() == zero3.ranks[0].losses.front());
    }
  }
}

TEST_CASE("loss scaling leaves all schemes with the same bits, static and dynamic, with clipping") {
  for (const bool dynamic : {false, true})
    for (const Dtype type : {Dtype::fp16, Dtype::bf16, Dtype::fp32}) {
      Scenario s = small_scenario();
      s.knobs.precision = {type, type, type};
      s.knobs.loss_scale = {.on = true, .dynamic = dynamic, .initial = 512.f, .growth_interval = 2};
      s.knobs.clip = 0.05f;
      s.steps = 5;
      const SchemeResult dp = run(s, "dp");
      for (const char* scheme : {"zero1", "zero2", "zero3", "zero3_keep"}) CHECK(run(s, scheme).theta == dp.theta);
      s.backend = "threads";
      CHECK(run(s, "zero3").theta == dp.theta);
      REQUIRE(dp.ranks[0].loss_scales.size() == 5);
      CHECK(dp.ranks[0].loss_scales.back() == (dynamic ? 2048.f : 512.f));  // doubled after steps 2 and 4
    }
}

TEST_CASE("a scale that is a power of two changes no bit in fp32") {
  Scenario s = small_scenario();
  const SchemeResult plain = run(s, "zero2");
  s.knobs.loss_scale = {.on = true, .dynamic = false, .initial = 1024.f};
  CHECK(run(s, "zero2").theta == plain.theta);
}

TEST_CASE("an overflow on one rank skips the step on all, halves the scale, and costs what any step costs") {
  const Scratch scratch;
  for (const char* scheme : {"dp", "zero1", "zero2", "zero3", "hsdp"}) {
    INFO(scheme);
    Scenario s = overflowing(scratch, 3e4f);
    s.knobs.shards = 2;
    const SchemeResult skipped = run(s, scheme);
    s = overflowing(scratch, 0.1f);
    s.knobs.shards = 2;
    const SchemeResult good = run(s, scheme);
    CHECK(skipped.theta == TrainingSet(s).theta0());  // nothing was updated
    CHECK(good.theta != skipped.theta);
    for (std::size_t rank = 0; rank < skipped.ranks.size(); ++rank) {
      CHECK(skipped.ranks[rank].loss_scales == std::vector<float>{512.f});
      CHECK(skipped.ranks[rank].updates == std::vector<float>{0.f});
      CHECK(good.ranks[rank].updates == std::vector<float>{1.f});
      CHECK(skipped.ranks[rank].step_end == good.ranks[rank].step_end);
      CHECK(skipped.ranks[rank].traffic_bytes == good.ranks[rank].traffic_bytes);
      CHECK(skipped.ranks[rank].control_bytes == good.ranks[rank].control_bytes);
      CHECK(skipped.ranks[rank].spans.size() == good.ranks[rank].spans.size());
    }
    s.numerics = Numerics::off;
    s.data.x.clear(), s.data.y.clear();
    CHECK(run(s, scheme).ranks[0].step_end == good.ranks[0].step_end);
  }
}

TEST_CASE("fp16 trains under dynamic loss scaling, which starts too high and skips down to what fits") {
  Scenario s = small_scenario();
  s.knobs.precision = {Dtype::fp16, Dtype::fp16, Dtype::fp16};
  s.steps = 40;
  s.knobs.loss_scale = {.on = true, .dynamic = true, .initial = 65536.f};
  const SchemeResult scaled = run(s, "zero1");
  CHECK(scaled.ranks[0].losses.back() < 0.7f * scaled.ranks[0].losses.front());
  CHECK(scaled.ranks[0].updates.back() >= 30.f);  // the first scales are too large and are skipped over
}

TEST_CASE("the learning rate warms up linearly and falls along a cosine to its floor") {
  const LrSchedule schedule{.warmup = 4, .decay_steps = 12, .floor = 0.1};
  CHECK(schedule.at(0) == 0.25);
  CHECK(schedule.at(3) == 1);
  CHECK(schedule.at(4) == 1);
  CHECK(schedule.at(8) == doctest::Approx(0.55));  // half-way: (1 + 0.1) / 2
  CHECK(schedule.at(12) == 0.1);
  CHECK(schedule.at(1000) == 0.1);
  CHECK(LrSchedule{}.at(7) == 1);
  // A first step at a quarter of the rate moves a quarter as far: Adam's first step is lr x sign.
  Scenario s = small_scenario();
  s.steps = 1;
  const std::vector<float> start = TrainingSet(s).theta0();
  const std::vector<float> full = run(s, "zero3").theta;
  s.knobs.schedule = schedule;
  const std::vector<float> quarter = run(s, "zero3").theta;
  for (std::size_t i = 0; i < start.size(); ++i)
    CHECK(double(quarter[i] - start[i]) == doctest::Approx(0.25 * double(full[i] - start[i])).epsilon(1e-3));
}

TEST_CASE("weight decay on matrices only spares the biases, in every scheme and cut alike") {
  Scenario s = small_scenario();
  s.knobs.adam.weight_decay = 0.5f, s.knobs.adam.decoupled = true;
  s.knobs.decays_matrices_only = true;
  s.steps = 2;
  s.world = 5;  // slices begin and end inside weights
  for (const Cut::Kind cut : {Cut::Kind::whole, Cut::Kind::layer}) {
    s.knobs.units = {cut, 0};
    const SchemeResult dp = run(s, "dp");
    for (const char* scheme : {"zero1", "zero2", "zero3"}) CHECK(run(s, scheme).theta == dp.theta);
    Scenario all = s, none = s;
    all.knobs.decays_matrices_only = false;
    none.knobs.adam.weight_decay = 0;
    const std::vector<float> decayed = run(all, "dp").theta, spared = run(none, "dp").theta;
    // First layer: 5 x 13 weights, then 13 biases. After one step the gradients still agree; after two they nearly do.
    all.steps = none.steps = s.steps = 1;
    const std::vector<float> one = run(s, "dp").theta, one_all = run(all, "dp").theta, one_none = run(none, "dp").theta;
    for (std::size_t i = 0; i < 65; ++i) CHECK(one[i] == one_all[i]);
    for (std::size_t i = 65; i < 78; ++i) CHECK(one[i] == one_none[i]);
    CHECK(decayed != spared);
    s.steps = 2;
  }
}
