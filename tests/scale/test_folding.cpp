// Folding: ranks that are simulated once and counted N times have the bytes and the seconds of N that are simulated one by one.
#include <doctest/doctest.h>

#include <cmath>
#include <sstream>

#include "app/platform_writer.h"
#include "core/error.h"
#include "property/runs.h"
#include "systems/systems.h"

using namespace shardsim;
using namespace shardsim::test;

namespace {

struct Case {
  std::string scheme;
  Words words;
};

std::vector<Case> all_schemes() {
  std::vector<Case> cases;
  const Registry registry = built_in_schemes();
  for (const SchemeEntry& entry : registry.entries()) {
    if (entry.name != "deepspeed") cases.push_back({entry.name, {}});
    else
      for (const char* stage : {"1", "2", "3"}) cases.push_back({entry.name, {{"stage", stage}}});
  }
  return cases;
}

MachineSpec machine(int nodes, int gpus_per_node, int nodes_per_leaf = 0) {
  MachineSpec spec;
  spec.nodes = nodes, spec.gpus_per_node = gpus_per_node, spec.gpu = "h100-sxm";
  if (nodes > 1) spec.nic = 50e9;
  if (nodes_per_leaf > 0) spec.has_leaves = true, spec.nodes_per_leaf = nodes_per_leaf, spec.oversubscription = 2;
  return completed(spec);
}

Scenario cost_only(int world) {
  Scenario s = thin_gpt2();
  s.world = world, s.steps = 2, s.numerics = Numerics::off, s.recorded_ranks = 0;
  s.knobs.precision = {Dtype::bf16, Dtype::bf16, Dtype::bf16};
  s.knobs.shards = world / 2;
  return s;
}

/// "0-5, 7" as numbers.
std::vector<int> ranks_in(const std::string& text) {
  std::vector<int> ranks;
  std::istringstream in(text);
  for (std::string range; std::getline(in, range, ',');) {
    const std::size_t dash = range.find('-');
    const int first = std::stoi(range), last = dash == std::string::npos ? first : std::stoi(range.substr(dash + 1));
    for (int rank = first; rank <= last; ++rank) ranks.push_back(rank);
  }
  return ranks;
}

bool close(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); }

/// Both ways; returns how many ranks were simulated when folded.
std::size_t check_folded_is_all(Scenario s, const Case& which) {
  CAPTURE(which.scheme);
  CAPTURE(s.world);
  if (which.scheme == "llmc_zero1") {  // which wants ranks that divide every tensor
    TransformerShape& shape = s.transformer->shape;
    shape.hidden = 32, shape.head_dim = 8, shape.ffn = 128, shape.vocab = 32, shape.positions = 16;
  }
  s.knobs.precision.master = which.scheme != "torch_zero_redundancy_optimizer";  // which has none
  s.folds = Folds::all;
  SchemeResult all;
  try {
    all = train(s, which.scheme, which.words);
  } catch (const ScenarioError&) {  // some systems want one copy of the model
    s.knobs.shards = 0;
    all = train(s, which.scheme, which.words);
  }
  s.folds = Folds::folded;
  const SchemeResult folded = train(s, which.scheme, which.words);
  REQUIRE(int(all.ranks.size()) == s.world);
  int counted = 0;
  for (const RankResult& one : folded.ranks)
    for (const int rank : ranks_in(one.stands_for)) {
      const RankResult& each = all.ranks[std::size_t(rank)];
      ++counted;
      CHECK(one.traffic_bytes == each.traffic_bytes);
      CHECK(one.control_bytes == each.control_bytes);
      CHECK(one.peak.bytes == each.peak.bytes);
      CHECK(one.model_state_peak.bytes == each.model_state_peak.bytes);
      REQUIRE(one.step_end.size() == each.step_end.size());
      for (std::size_t step = 0; step < one.step_end.size(); ++step) {
        CHECK(close(one.step_begin[step], each.step_begin[step]));
        CHECK(close(one.step_end[step], each.step_end[step]));
      }
    }
  CHECK(counted == s.world);
  REQUIRE(all.links.size() == folded.links.size());
  for (std::size_t i = 0; i < all.links.size(); ++i) {
    CHECK(all.links[i].link == folded.links[i].link);
    CHECK(all.links[i].bytes == folded.links[i].bytes);
  }
  return folded.ranks.size();
}

bool is_textbook(const std::string& scheme) {
  const auto& names = schemes();
  return scheme == "hsdp" || std::find(names.begin(), names.end(), scheme) != names.end();
}

}  // namespace

TEST_CASE("folded ranks have the bytes and seconds of all of them, in every scheme, in one node, in several and in a fat tree") {
  const PlatformFile node(platform_xml(machine(1, 8), "")), nodes(platform_xml(machine(4, 4), "")),
      tree(platform_xml(machine(8, 2, 4), ""));
  for (const Case& which : all_schemes()) {
    Scenario s = cost_only(8);
    s.platform = node.path();
    const std::size_t of_node = check_folded_is_all(s, which);
    s = cost_only(16);
    s.platform = nodes.path();
    const std::size_t of_nodes = check_folded_is_all(s, which);
    s.platform = tree.path();
    check_folded_is_all(s, which);
    if (!is_textbook(which.scheme)) continue;
    CHECK(of_node == 1);
    CHECK(of_nodes == 1);
  }
}

TEST_CASE("64 and 512 ranks fold as 8 do") {
  const PlatformFile some(platform_xml(machine(8, 8, 2), "")), many(platform_xml(machine(64, 8, 8), ""));
  for (const char* scheme : {"dp", "zero3", "hsdp", "fsdp2"}) {
    Scenario s = cost_only(64);
    s.platform = some.path(), s.knobs.shards = 8;
    check_folded_is_all(s, {scheme, {}});
  }
  for (const char* scheme : {"zero3", "hsdp"}) {
    Scenario s = cost_only(512);
    s.platform = many.path(), s.knobs.shards = 8, s.steps = 1;
    CHECK(check_folded_is_all(s, {scheme, {}}) == 1);
  }
}

TEST_CASE("a straggler or a slow link is told apart, and so is only who can tell it from others") {
  const std::string plain = platform_xml(machine(4, 4), "");
  const auto with = [&plain](const std::string& before, const std::string& added) {
    std::string xml = plain;
    const std::size_t at = xml.find(before);
    REQUIRE(at != std::string::npos);
    return xml.insert(at, added);
  };
  // Node 2's GPUs are slow; or what its NICs carry in a second is a tenth.
  const PlatformFile straggler(with("<prop id=\"gpu\" value=\"h100-sxm\"/>\n      <prop id=\"node\" value=\"2\"/>",
                                    "<prop id=\"kernel_seconds\" value=\"5us\"/>"));
  std::string slow = plain;
  const std::size_t link = slow.find("id=\"node2-nics\" bandwidth=\"45GBps\"");
  REQUIRE(link != std::string::npos);
  slow.replace(link, 34, "id=\"node2-nics\" bandwidth=\"4.5GBps\"");
  const PlatformFile degraded(slow);
  for (const Case& which : all_schemes()) {
    Scenario s = cost_only(16);
    s.knobs.shards = 4;
    s.platform = straggler.path();
    const std::size_t of_straggler = check_folded_is_all(s, which);
    s.platform = degraded.path();
    const std::size_t of_degraded = check_folded_is_all(s, which);
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
    CHECK(check_folded_is_all(s, {"hsdp", {}}) == 1);
    s.knobs.shards = 2;  // groups of half a node
    check_folded_is_all(s, {"hsdp", {}});
    s.knobs.shards = 4;
  }
}

TEST_CASE("uneven slices break a class") {
  const PlatformFile node(platform_xml(machine(1, 8), ""));
  Scenario s = cost_only(8);
  s.platform = node.path();
  s.knobs.adam.weight_decay = 0.1f, s.knobs.decays_matrices_only = true;  // a slice has as many kernels as it has kinds of weights
  CHECK(check_folded_is_all(s, {"zero3", {}}) > 1);
  CHECK(check_folded_is_all(s, {"dp", {}}) == 1);
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
  s.folds = Folds::all;
  const SchemeResult all = train(s, "dp");
  double slowest = 0;
  for (const RankResult& rank : all.ranks) slowest = std::max(slowest, rank.step_end.back() - rank.step_begin.front());
  const double of_folded = folded.ranks[0].step_end.back() - folded.ranks[0].step_begin.front();
  CHECK(of_folded >= slowest * (1 - 1e-9));
  CHECK(of_folded < 1.2 * slowest);
}
