// Folding: ranks that are simulated once and counted N times have the bytes and the seconds of N that are simulated one by one.
#include <doctest/doctest.h>

#include <random>

#include "core/error.h"
#include "scale/folding.h"
#include "textbook/dp.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

/// Says that all ranks do the same, but in the second step the last one does more.
class LastDoesMore final : public Scheme {
 public:
  void bind(Rank& rank) override { rank_ = &rank, dp_.bind(rank); }
  void run_step(int step, StepReport& report) override {
    dp_.run_step(step, report);
    if (step != 1 || rank_->index + 1 != rank_->world) return;
    Device& device = rank_->device;
    const Held more(device, Lane::compute, device.alloc(Lane::compute, Band::workspace, one, Dim(1000, 0), Dtype::fp32));
    device.launch(Lane::compute, Fill{*more, 0});
  }
  std::vector<ThetaPiece> theta() override { return {}; }
  const std::vector<Unit>& units() const override { return scheme().units(); }
  const Mesh& mesh() const override { return scheme().mesh(); }
  ShardSet shard() const override { return {}; }
  bool is_even() const override { return true; }

 private:
  const Scheme& scheme() const { return dp_; }
  Dp dp_;
  Rank* rank_ = nullptr;
};

}  // namespace

TEST_CASE("a straggler or a slow link is told apart, and so is only who can tell it from others") {
  // Node 2's GPUs are slow; or what its NICs carry in a second is a hundredth.
  std::string xml = platform_xml(machine(4, 4), "");
  const std::string node = "<prop id=\"node\" value=\"2\"/>";
  const std::size_t at = xml.find(node);
  REQUIRE(at != std::string::npos);
  const PlatformFile straggler(xml.insert(at, "<prop id=\"kernel_seconds\" value=\"5us\"/>"));
  const PlatformFile degraded(with_fault(machine(4, 4), Fault::slow_link));
  for (const FoldingCase& which : folding_cases()) {
    Scenario s = cost_only_wide(16, which.is_even);
    s.knobs.shards = 4;
    s.platform = straggler.path();
    const std::size_t of_straggler = check_folded_is_all(s, which).simulated;
    s.platform = degraded.path();
    const std::size_t of_degraded = check_folded_is_all(s, which).simulated;
    if (!is_textbook(which.scheme)) continue;
    CHECK(of_straggler == 2);  // the slow node's GPUs, and all others
    // The ring of all is slow for all alike. Of groups of a node, one has a neighbour link that others have not, but nobody in it
    // uses that: only the rings between the nodes do, and all of them.
    CHECK(of_degraded == 1);
  }
}

TEST_CASE("collectives that contend for links are folded with what they take from each other") {
  // Four rings between nodes share each node's NICs, and rings inside nodes run beside them.
  const PlatformFile nodes(platform_xml(machine(4, 4, 2), ""));
  Scenario s = cost_only(16);
  s.platform = nodes.path(), s.knobs.shards = 4;
  s.transformer->shape.hidden = 400, s.transformer->shape.head_dim = 100, s.transformer->shape.ffn = 1600;
  for (const int streams : {1, 2, 3}) {
    s.knobs.streams = streams;
    CHECK(check_folded_is_all(s, {"hsdp"}).simulated == 1);
    s.knobs.shards = 2;  // groups of half a node
    check_folded_is_all(s, {"hsdp"});
    s.knobs.shards = 4;
  }
}

TEST_CASE("all-to-alls are folded, with those that go at the same time and with a link that is slow") {
  const FoldingCase which{"deepspeed", {{"stage", "3"}, {"zero_quantized_gradients", "true"}}};
  for (const MachineSpec& m : {machine(4, 4), machine(8, 2, 4)})
    for (const Fault fault : {Fault::none, Fault::slow_link}) {
      const PlatformFile file(with_fault(m, fault));
      for (const Fidelity fidelity : {Fidelity::coupled, Fidelity::formula}) {
        Scenario s = cost_only_wide(16, true);
        s.platform = file.path(), s.fabric = fidelity, s.knobs.shards = m.gpus_per_node;
        const std::size_t simulated = check_folded_is_all(s, which).simulated;
        if (fault == Fault::none) CHECK(simulated <= 4);  // some ranks have padding
      }
    }
}

TEST_CASE("uneven slices break a class") {
  const PlatformFile node(platform_xml(machine(1, 8), ""));
  Scenario s = cost_only(8);
  s.platform = node.path();
  s.knobs.adam.weight_decay = 0.1f, s.knobs.decays_matrices_only = true;  // a slice has as many kernels as it has kinds of weights
  CHECK(check_folded_is_all(s, {"zero3"}).simulated > 1);
  CHECK(check_folded_is_all(s, {"dp"}).simulated == 1);
}

TEST_CASE("a scheme that says that all ranks do the same, and is wrong, is refused by whoever would take its word") {
  const PlatformFile node(platform_xml(machine(1, 8), ""));
  const SchemeEntry entry{"last_does_more", "", "",
                          [](const Options&) -> std::unique_ptr<Scheme> { return std::make_unique<LastDoesMore>(); }};
  Scenario s = cost_only(8);
  s.platform = node.path();
  const auto run = [&] { return run_scheme(s, TrainingSet(s), entry); };
  const char* const words =
      "all ranks do the same, the scheme says (is_even), but rank 7 does not do what rank 0 does; let its steps not depend on the "
      "rank, or is_even say false";
  s.checks_hazards = true, s.folds = Folds::all;  // takes no one's word
  CHECK(run().ranks.size() == 8);
  s.checks_hazards = false;
  CHECK_THROWS_WITH_AS(run(), (std::string("scheme 'last_does_more', rank 0, step 1: ") + words).c_str(), IllegalStep);
  for (const Folds folds : {Folds::folded, Folds::automatic}) {
    s.folds = folds;
    CHECK_THROWS_WITH_AS(run(), (std::string("scheme 'last_does_more': ") + words).c_str(), IllegalStep);
  }
  s.steps = 1;  // in which they do
  CHECK(run().ranks.size() == 1);
}

TEST_CASE("of folded ranks only those can be recorded that are simulated") {
  const PlatformFile node(platform_xml(machine(1, 8), ""));
  Scenario s = cost_only(8);
  s.platform = node.path(), s.folds = Folds::folded;
  s.recorded_ranks = 0, s.recorded_ranks.add(3, 3), s.recorded_ranks.add(7, 7);
  CHECK_THROWS_WITH_AS(
      train(s, "dp"),
      doctest::Contains("record.ranks: rank 3 is not simulated, but folded into rank 0; record that one, or write ranks: all"),
      ScenarioError);
  s.recorded_ranks.add(0, 0);
  CHECK_FALSE(train(s, "dp").ranks[0].spans.empty());
}

TEST_CASE("of folded ranks the first so many that are simulated are recorded, and the printout says which are not") {
  const PlatformFile nodes(with_fault(machine(4, 4), Fault::slow_rank));  // rank 9
  Scenario s = cost_only(16);
  s.platform = nodes.path(), s.folds = Folds::folded, s.recorded_ranks = 8;
  const auto recorded = [](const SchemeResult& result) {
    std::vector<int> ranks;
    for (const RankResult& rank : result.ranks)
      if (rank.is_recorded()) ranks.push_back(rank.rank);
    return ranks;
  };
  const SchemeResult both = train(s, "dp");
  CHECK(recorded(both) == std::vector<int>{0, 9});
  CHECK(both.folding == "16 ranks are simulated as 2: rank 0 for 0-8, 10-15; rank 9 for 9.");
  s.recorded_ranks = 1;
  const SchemeResult first = train(s, "dp");
  CHECK(recorded(first) == std::vector<int>{0});
  CHECK(first.folding ==
        "16 ranks are simulated as 2: rank 0 for 0-8, 10-15; rank 9 for 9. In traces, CSVs and compute times: only rank 0 (record: "
        "ranks).");
  s.folds = Folds::all, s.recorded_ranks = 8;
  CHECK(train(s, "dp").folding == "In traces, CSVs and compute times: only ranks 0-7 (record: ranks).");
  const PlatformFile sound(platform_xml(machine(4, 4), ""));
  s.platform = sound.path();
  CHECK(train(s, "dp").folding.empty());
}

TEST_CASE("what cannot be folded is refused, or said where it is left to the program") {
  const PlatformFile node(platform_xml(machine(1, 8), ""));
  Scenario s = cost_only(8);
  s.platform = node.path(), s.numerics = Numerics::full, s.folds = Folds::folded;
  CHECK_THROWS_WITH_AS(train(s, "dp"), doctest::Contains("ranks: folded: dp: with numerics every rank has a loss of its own"),
                       ScenarioError);
  s.folds = Folds::automatic;
  const SchemeResult with_numerics = train(s, "dp");
  CHECK(with_numerics.ranks.size() == 8);
  CHECK(with_numerics.folding == "ranks are not folded: with numerics every rank has a loss of its own; write numerics: off.");
  s.numerics = Numerics::off;
  const SchemeResult without = train(s, "dp");
  CHECK(without.ranks.size() == 1);
  CHECK(without.folding == "8 ranks are simulated as 1: rank 0 for 0-7.");
  s.fabric = Fidelity::ring, s.folds = Folds::folded;
  CHECK_THROWS_AS(train(s, "dp"), ScenarioError);
}

TEST_CASE("folded nodes are as slow in a step as the slowest of them") {
  std::string xml = platform_xml(machine(4, 4), "");
  for (std::size_t at = 0; (at = xml.find("<prop id=\"node\"", at)) != std::string::npos; at += 60)
    xml.insert(at, "<prop id=\"jitter\" value=\"0.2\"/>");
  const PlatformFile nodes(xml);
  Scenario s = cost_only(16);
  s.platform = nodes.path(), s.folds = Folds::folded;
  const SchemeResult folded = train(s, "dp");
  CHECK(folded.ranks.size() == 1);
  CHECK(folded.folding ==
        "16 ranks are simulated as 1: rank 0 for 0-15; in every step a class has the jitter of its slowest node.");
  s.folds = Folds::all;
  const SchemeResult all = train(s, "dp");
  double slowest = 0;
  for (const RankResult& rank : all.ranks) slowest = std::max(slowest, rank.step_end.back() - rank.step_begin.front());
  const double of_folded = folded.ranks[0].step_end.back() - folded.ranks[0].step_begin.front();
  CHECK(of_folded >= slowest * (1 - 1e-9));
  CHECK(of_folded < 1.2 * slowest);
  // What is left to the program is exact: it does not fold.
  s.folds = Folds::automatic;
  const SchemeResult left_to_it = train(s, "dp");
  check_same_costs(left_to_it, all);
  CHECK(left_to_it.ranks[0].stands_for.empty());
  CHECK(left_to_it.folding ==
        "ranks are not folded: with jitter nodes differ in every step; ranks: folded gives each class its slowest node's.");
}

TEST_CASE("on a machine no two parts of which are alike, folded ranks have the dates of all ranks to 1e-9") {
  // Transfers end at dates of their own: SimGrid may not take any two for one.
  std::mt19937 random(7);
  const auto between = [&random](double low, double high) {
    return std::to_string(low + (high - low) * double(random() % 1'000'003) / 1'000'003);
  };
  std::string xml = platform_xml(machine(4, 4), "");
  for (int node = 0; node < 4; ++node) {
    xml = spelled_out(xml, machine(4, 4), node, [&](int) {
      return OwnParts{"<prop id=\"kernel_seconds\" value=\"" + between(1, 3) + "us\"/>", between(200, 400) + "GBps"};
    });
    xml = with_bandwidth(xml, "node" + std::to_string(node) + "-nics", between(20, 50) + "GBps");
  }
  const PlatformFile nodes(xml);
  for (const FoldingCase& which : folding_cases())
    for (const int shards : {2, 4}) {
      Scenario s = cost_only_wide(16, which.is_even);
      s.platform = nodes.path(), s.checks_hazards = false, s.knobs.shards = shards, s.steps = 4;
      CHECK(check_folded_is_all(s, which).simulated > 8);
    }
}
