// pytorch_ddp: its buckets and their order, what it holds, and that it trains as dp does.
#include <doctest/doctest.h>

#include "core/error.h"
#include "systems/systems.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

constexpr double mib = 1 << 20;
constexpr std::int64_t parameters_of_large = 774'090'240;

void check_losses(const SchemeResult& a, const SchemeResult& b) {
  for (std::size_t rank = 0; rank < a.ranks.size(); ++rank) {
    REQUIRE(a.ranks[rank].losses.size() == b.ranks[rank].losses.size());
    for (std::size_t step = 0; step < a.ranks[rank].losses.size(); ++step)
      CHECK(a.ranks[rank].losses[step] == doctest::Approx(b.ranks[rank].losses[step]).epsilon(2e-6));
  }
}

}  // namespace

TEST_CASE("DDP reduces GPT-2 Large once in its first iteration, and in 55 buckets of the order of arrival from then on") {
  const SchemeResult result = train(gpt2_large(), "pytorch_ddp");
  const std::vector<Span> first = collectives_of(result, 0), second = collectives_of(result, 1);
  REQUIRE(first.size() == 1);
  CHECK(first[0].size == 2 * parameters_of_large);
  REQUIRE(second.size() == 55);
  CHECK(double(second.front().size) / mib == doctest::Approx(12.505).epsilon(1e-3));
  CHECK(double(second.back().size) / mib == doctest::Approx(137.84).epsilon(1e-3));
  std::int64_t all = 0;
  for (std::size_t i = 0; i < second.size(); ++i) {
    all += second[i].size;
    CHECK(second[i].unit == int(i));  // strictly in order
  }
  CHECK(all == 2 * parameters_of_large);
  CHECK(result.ranks[0].traffic_bytes == 2 * 2 * parameters_of_large / 8 * 7 * 2);  // two steps
}

TEST_CASE("the first iteration's reduction is exposed, and most of the later ones hide under backward") {
  const SchemeResult result = train(gpt2_large(), "pytorch_ddp");
  const RankResult& rank = result.ranks[0];
  const double first = rank.step_end[0] - rank.step_begin[0], second = rank.step_end[1] - rank.step_begin[1];
  const Span all = collectives_of(result, 0)[0];
  CHECK(first - second > 0.6 * (all.end - all.begin));
}

TEST_CASE("buckets are held from construction, and the gradients beside them unless they are views") {
  for (const bool views : {false, true}) {
    Scenario s = gpt2_large();
    s.steps = 3;
    const SchemeResult result = train(s, "pytorch_ddp", {{"gradient_as_bucket_view", views ? "true" : "false"}});
    const RankResult& rank = result.ranks[0];
    CHECK(resident_of(rank, Band::bucket) == 2 * parameters_of_large);
    CHECK(resident_of(rank, Band::param) == 2 * parameters_of_large);
    CHECK(resident_of(rank, Band::opt) == 12 * parameters_of_large);
    CHECK(resident_of(rank, Band::grad) == 0);
    // In the last step, so that the rebuilding of the buckets is over.
    std::int64_t grads = 0, most = 0;
    for (const LedgerEntry& entry : rank.entries) {
      if (entry.band == Band::grad) grads += entry.bytes;
      if (entry.seconds >= rank.step_begin[2]) most = std::max(most, grads);
    }
    if (views) CHECK(most < parameters_of_large / 4);  // one gradient on its way into its bucket: at most the embedding's
    else CHECK(most == 2 * parameters_of_large);
  }
}

TEST_CASE("DDP trains a tied and an untied model as dp does, at odd worlds, accumulating and clipping, on both backends") {
  for (const bool tied : {true, false})
    for (const int world : {1, 2, 3, 8})
      for (const int accumulation : {1, 2}) {
        INFO("tied " << tied << ", world " << world << ", accumulation " << accumulation);
        Scenario s = thin_gpt2(tied);
        s.world = world, s.knobs.accumulation = accumulation, s.knobs.clip = 0.7f;
        const SchemeResult dp = train(s, "dp"), ddp = train(s, "pytorch_ddp", {{"bucket_cap_mb", "0.004"}});
        check_losses(dp, ddp);
        const SchemeResult views = train(s, "pytorch_ddp", {{"bucket_cap_mb", "0.004"}, {"gradient_as_bucket_view", "true"}});
        CHECK(views.theta == ddp.theta);
        s.backend = "threads";
        CHECK(train(s, "pytorch_ddp", {{"bucket_cap_mb", "0.004"}}).theta == ddp.theta);
      }
}

TEST_CASE("a static graph has buckets in its first iteration too, and unused parameters are found by one more reduction") {
  Scenario s = thin_gpt2();
  s.steps = 2;
  const std::size_t usual = collectives_of(train(s, "pytorch_ddp", {{"bucket_cap_mb", "0.004"}}), 1).size();
  CHECK(usual > 3);
  CHECK(collectives_of(train(s, "pytorch_ddp", {{"bucket_cap_mb", "0.004"}, {"static_graph", "true"}}), 0).size() > 3);
  const SchemeResult unused = train(s, "pytorch_ddp", {{"bucket_cap_mb", "0.004"}, {"find_unused_parameters", "true"}});
  int maps = 0;
  for (const Span& span : collectives_of(unused, 1)) maps += span.control;
  CHECK(maps == 1);
  check_losses(train(s, "dp"), unused);
}

TEST_CASE("without accumulation's no_sync DDP would send more: micro-batches before the last send nothing") {
  Scenario s = thin_gpt2();
  s.steps = 1;
  const std::int64_t once = train(s, "pytorch_ddp").ranks[0].traffic_bytes;
  s.knobs.accumulation = 4;
  CHECK(train(s, "pytorch_ddp").ranks[0].traffic_bytes == once);
}

TEST_CASE("over 100 steps DDP's loss is dp's within 1e-5, and on two ranks its parameters are dp's to the bit") {
  Scenario s = thin_gpt2();
  s.steps = 100, s.world = 3, s.knobs.adam.lr = 3e-3f;
  const SchemeResult dp = train(s, "dp"), ddp = train(s, "pytorch_ddp", {{"bucket_cap_mb", "0.004"}});
  double worst = 0;
  for (std::size_t step = 0; step < 100; ++step)
    worst = std::max(worst, std::abs(double(ddp.ranks[0].losses[step]) / double(dp.ranks[0].losses[step]) - 1));
  CHECK(worst < 1e-5);
  CHECK(dp.ranks[0].losses.back() < 0.9 * dp.ranks[0].losses.front());
  s.world = 2, s.steps = 20;  // a sum of two has one order, and a half is exact
  CHECK(train(s, "pytorch_ddp", {{"bucket_cap_mb", "0.004"}}).theta == train(s, "dp").theta);
}

TEST_CASE("DDP sends, message by message, what the rings of its buckets add up to, on every rank") {
  for (const int n : counted_worlds)
    for (const int accumulation : {1, 2}) {
      INFO("world " << n << ", accumulation " << accumulation);
      IdealGpus gpus;
      gpus.gpus = n;
      const PlatformFile platform(gpus);
      Scenario s = thin_gpt2();
      s.platform = platform.path(), s.world = n, s.steps = 2, s.fabric = Fidelity::ring, s.numerics = Numerics::off;
      s.knobs.accumulation = accumulation, s.recorded_ranks = n;
      const SchemeResult result = train(s, "pytorch_ddp", {{"bucket_cap_mb", "0.004"}});
      for (int me = 0; me < n; ++me) {
        std::int64_t expected = 0, elements = 0;
        for (int step = 0; step < 2; ++step)
          for (const Span& span : collectives_of(result, step, me)) {
            const std::int64_t count = span.size / 4;
            elements += count;
            expected += 4 * sent_in_all_reduce(count, n, me);
          }
        if (n > 1) CHECK(elements == 2 * result.parameters);
        CHECK(result.ranks[std::size_t(me)].traffic_bytes == expected);
      }
    }
}

TEST_CASE("a wait that DDP leaves out is named by the hazard checker, on both backends") {
  for (const char* backend : {"simgrid", "threads"})
    for (const Edge edge : {Edge::gradient_before_reduction, Edge::reduction_before_update}) {
      Scenario s = thin_gpt2();
      s.backend = backend, s.knobs.omitted = edge;
      std::string message;
      try {
        train(s, "pytorch_ddp");
      } catch (const IllegalStep& error) {
        message = error.what();
      }
      CHECK(message.find("all_reduce") != std::string::npos);
    }
}
